"""Calls of EC2, STS and S3 with the AWS SDK for Python. Prints one JSON document.

usage: walk.py EC2_URL S3_URL BUCKET   (keys in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)
"""
import json
import os
import sys

import boto3
import botocore.config
import botocore.exceptions

ENDPOINT, STORE, BUCKET = sys.argv[1:]


def client(kind, endpoint=ENDPOINT, **more):
    return boto3.client(kind, endpoint_url=endpoint, region_name='RegionOne', config=botocore.config.Config(
        retries={'max_attempts': 0}), **more)


def main():
    found = {'account': client('sts').get_caller_identity()['Account']}
    compute, one = client('ec2'), {'MinCount': 1, 'MaxCount': 1}
    found['regions'] = [row['RegionName'] for row in compute.describe_regions()['Regions']]
    made = compute.run_instances(
        ImageId=compute.describe_images()['Images'][0]['ImageId'], InstanceType='m1.tiny', **one, EbsOptimized=False,
        EnclaveOptions={'Enabled': False}, TagSpecifications=[{'ResourceType': 'instance', 'Tags': [
            {'Key': 'kubernetes.io/cluster/x', 'Value': 'owned=1'}]}])
    ids = {'InstanceIds': [made['Instances'][0]['InstanceId']]}
    compute.get_waiter('instance_running').wait(**ids, WaiterConfig={'Delay': 1, 'MaxAttempts': 120})
    instance = compute.describe_instances(**ids)['Reservations'][0]['Instances'][0]
    found['state'] = instance['State']['Name']
    key = compute.create_key_pair(KeyName=BUCKET, KeyType='ed25519')
    volume = compute.create_volume(Size=1, AvailabilityZone=instance['Placement']['AvailabilityZone'], VolumeType='gp3')
    network = compute.create_vpc(CidrBlock='10.95.0.0/16', AmazonProvidedIpv6CidrBlock=False)['Vpc']
    gateways = compute.describe_nat_gateways()['NatGateways']
    found['daily'] = [instance['SourceDestCheck'], instance['Tags'][0]['Key'], 'OPENSSH' in key['KeyMaterial'],
                      volume['VolumeType'], network['State'], len(gateways)]
    compute.delete_vpc(VpcId=network['VpcId'])
    compute.delete_key_pair(KeyName=BUCKET)
    compute.terminate_instances(**ids)
    objects = client('s3', STORE)
    objects.create_bucket(Bucket=BUCKET)
    objects.put_object(Bucket=BUCKET, Key='a key', Body=b'content')
    found['object'] = objects.get_object(Bucket=BUCKET, Key='a key')['Body'].read().decode()
    wrong = {'aws_access_key_id': os.environ['AWS_ACCESS_KEY_ID'], 'aws_secret_access_key': 'wrong'}
    try:
        client('ec2', **wrong).describe_regions()
    except botocore.exceptions.ClientError as error:
        found['wrong'] = error.response['Error']['Code']
    print(json.dumps(found))


if __name__ == '__main__':
    main()
