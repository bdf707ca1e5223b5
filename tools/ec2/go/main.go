// Calls of EC2, STS and S3 with the AWS SDK for Go v2. Prints one JSON document.
// usage: walk EC2_URL S3_URL BUCKET   (keys in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func client(endpoint, secret string) *ec2.Client {
	return ec2.New(ec2.Options{BaseEndpoint: &endpoint, Region: "RegionOne", Credentials: keys(secret), RetryMaxAttempts: 1})
}

func keys(secret string) aws.CredentialsProvider {
	return credentials.NewStaticCredentialsProvider(os.Getenv("AWS_ACCESS_KEY_ID"), secret, "")
}

func main() {
	endpoint, store, bucket, secret := os.Args[1], os.Args[2], os.Args[3], os.Getenv("AWS_SECRET_ACCESS_KEY")
	ctx, found := context.Background(), map[string]any{}
	who := sts.New(sts.Options{BaseEndpoint: &endpoint, Region: "RegionOne", Credentials: keys(secret)})
	found["account"] = must(who.GetCallerIdentity(ctx, nil)).Account
	compute := client(endpoint, secret)
	regions := []string{}
	for _, row := range must(compute.DescribeRegions(ctx, nil)).Regions {
		regions = append(regions, *row.RegionName)
	}
	found["regions"] = regions
	image := must(compute.DescribeImages(ctx, nil)).Images[0].ImageId
	made := must(compute.RunInstances(ctx, &ec2.RunInstancesInput{
		ImageId: image, InstanceType: "m1.tiny", MinCount: aws.Int32(1), MaxCount: aws.Int32(1), EbsOptimized: aws.Bool(false),
		EnclaveOptions: &types.EnclaveOptionsRequest{Enabled: aws.Bool(false)},
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{
			{Key: aws.String("kubernetes.io/cluster/x"), Value: aws.String("owned=1")}}}}}))
	ids := []string{*made.Instances[0].InstanceId}
	waiter := ec2.NewInstanceRunningWaiter(compute, func(options *ec2.InstanceRunningWaiterOptions) {
		options.MinDelay, options.MaxDelay = time.Second, time.Second
	})
	if err := waiter.Wait(ctx, &ec2.DescribeInstancesInput{InstanceIds: ids}, 2*time.Minute); err != nil {
		log.Fatal(err)
	}
	shown := must(compute.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: ids}))
	instance := shown.Reservations[0].Instances[0]
	found["state"] = instance.State.Name
	pair := must(compute.CreateKeyPair(ctx, &ec2.CreateKeyPairInput{KeyName: &bucket, KeyType: types.KeyTypeEd25519}))
	volume := must(compute.CreateVolume(ctx, &ec2.CreateVolumeInput{
		Size: aws.Int32(1), AvailabilityZone: instance.Placement.AvailabilityZone, VolumeType: types.VolumeTypeGp3}))
	network := must(compute.CreateVpc(ctx, &ec2.CreateVpcInput{
		CidrBlock: aws.String("10.94.0.0/16"), AmazonProvidedIpv6CidrBlock: aws.Bool(false)}))
	gateways := must(compute.DescribeNatGateways(ctx, nil))
	found["daily"] = []any{*instance.SourceDestCheck, *instance.Tags[0].Key, strings.Contains(*pair.KeyMaterial, "OPENSSH"),
		volume.VolumeType, network.Vpc.State, len(gateways.NatGateways)}
	must(compute.DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: network.Vpc.VpcId}))
	must(compute.DeleteKeyPair(ctx, &ec2.DeleteKeyPairInput{KeyName: &bucket}))
	must(compute.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids}))
	objects := s3.New(s3.Options{
		BaseEndpoint: &store, Region: "RegionOne", Credentials: keys(secret), UsePathStyle: true, RetryMaxAttempts: 1})
	must(objects.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &bucket}))
	key := aws.String("a key")
	must(objects.PutObject(ctx, &s3.PutObjectInput{Bucket: &bucket, Key: key, Body: strings.NewReader("content")}))
	read := must(objects.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: key}))
	found["object"] = string(must(io.ReadAll(read.Body)))
	_, err := client(endpoint, "wrong").DescribeRegions(ctx, nil)
	var refused smithy.APIError
	if errors.As(err, &refused) {
		found["wrong"] = refused.ErrorCode()
	}
	fmt.Println(string(must(json.Marshal(found))))
}
