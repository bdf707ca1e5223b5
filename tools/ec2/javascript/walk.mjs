// Calls of EC2, STS and S3 with the AWS SDK for JavaScript v3. Prints one JSON document.
// usage: node walk.mjs EC2_URL S3_URL BUCKET   (keys in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)
import * as ec2 from '@aws-sdk/client-ec2'
import * as s3 from '@aws-sdk/client-s3'
import * as sts from '@aws-sdk/client-sts'

const [, , endpoint, store, bucket] = process.argv
const settings = { endpoint, region: 'RegionOne', maxAttempts: 1 }
const compute = new ec2.EC2Client(settings)
const found = { account: (await new sts.STSClient(settings).send(new sts.GetCallerIdentityCommand({}))).Account }
found.regions = (await compute.send(new ec2.DescribeRegionsCommand({}))).Regions.map(row => row.RegionName)
const { Images: [image] } = await compute.send(new ec2.DescribeImagesCommand({}))
const made = await compute.send(new ec2.RunInstancesCommand({
  ImageId: image.ImageId, InstanceType: 'm1.tiny', MinCount: 1, MaxCount: 1, EbsOptimized: false,
  EnclaveOptions: { Enabled: false }, TagSpecifications: [
    { ResourceType: 'instance', Tags: [{ Key: 'kubernetes.io/cluster/x', Value: 'owned=1' }] }] }))
const InstanceIds = made.Instances.map(row => row.InstanceId)
await ec2.waitUntilInstanceRunning({ client: compute, maxWaitTime: 120, minDelay: 1, maxDelay: 1 }, { InstanceIds })
const shown = await compute.send(new ec2.DescribeInstancesCommand({ InstanceIds }))
const [instance] = shown.Reservations[0].Instances
found.state = instance.State.Name
const key = await compute.send(new ec2.CreateKeyPairCommand({ KeyName: bucket, KeyType: 'ed25519' }))
const volume = await compute.send(new ec2.CreateVolumeCommand({
  Size: 1, AvailabilityZone: instance.Placement.AvailabilityZone, VolumeType: 'gp3' }))
const network = await compute.send(new ec2.CreateVpcCommand({
  CidrBlock: '10.93.0.0/16', AmazonProvidedIpv6CidrBlock: false }))
const gateways = await compute.send(new ec2.DescribeNatGatewaysCommand({}))
found.daily = [instance.SourceDestCheck, instance.Tags[0].Key, key.KeyMaterial.includes('OPENSSH'), volume.VolumeType,
  network.Vpc.State, gateways.NatGateways.length]
await compute.send(new ec2.DeleteVpcCommand({ VpcId: network.Vpc.VpcId }))
await compute.send(new ec2.DeleteKeyPairCommand({ KeyName: bucket }))
await compute.send(new ec2.TerminateInstancesCommand({ InstanceIds }))
const objects = new s3.S3Client({ ...settings, endpoint: store, forcePathStyle: true })
await objects.send(new s3.CreateBucketCommand({ Bucket: bucket }))
await objects.send(new s3.PutObjectCommand({ Bucket: bucket, Key: 'a key', Body: 'content' }))
const read = await objects.send(new s3.GetObjectCommand({ Bucket: bucket, Key: 'a key' }))
found.object = await read.Body.transformToString()
const wrong = new ec2.EC2Client({ ...settings, credentials: {
  accessKeyId: process.env.AWS_ACCESS_KEY_ID, secretAccessKey: 'wrong' } })
found.wrong = await wrong.send(new ec2.DescribeRegionsCommand({})).catch(error => error.name)
console.log(JSON.stringify(found))
