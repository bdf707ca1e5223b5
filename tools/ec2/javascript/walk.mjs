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
  ImageId: image.ImageId, InstanceType: 'm1.tiny', MinCount: 1, MaxCount: 1 }))
const InstanceIds = made.Instances.map(row => row.InstanceId)
await ec2.waitUntilInstanceRunning({ client: compute, maxWaitTime: 120, minDelay: 1, maxDelay: 1 }, { InstanceIds })
const shown = await compute.send(new ec2.DescribeInstancesCommand({ InstanceIds }))
found.state = shown.Reservations[0].Instances[0].State.Name
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
