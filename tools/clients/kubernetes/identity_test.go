package walk

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/trusts"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/cloud-provider-openstack/pkg/identity/keystone"
	kmsserver "k8s.io/cloud-provider-openstack/pkg/kms/server"
	kms "k8s.io/kms/apis/v2"
)

// identity is a client of the identity API, and the id of its user.
func identity(t *testing.T) (*gophercloud.ServiceClient, string) {
	t.Helper()
	made, err := openstack.NewIdentityV3(compute.ProviderClient, gophercloud.EndpointOpts{Region: region})
	check(t, err)
	user, err := compute.GetAuthResult().(tokens.CreateResult).ExtractUser()
	check(t, err)
	return made, user.ID
}

// exists asks for a server as an account of the configuration file.
func exists(t *testing.T, account ...string) {
	t.Helper()
	found, supported := managerAs(t, global(account...)).InstancesV2()
	equal(t, "support of instances", supported, true)
	is, err := found.InstanceExists(ctx, begun().nodes[0].object())
	check(t, err)
	equal(t, "a server's existence", is, true)
}

func TestApplicationCredential(t *testing.T) {
	client, user := identity(t)
	made, err := applicationcredentials.Create(ctx, client, user, applicationcredentials.CreateOpts{Name: "manager"}).Extract()
	check(t, err)
	defer applicationcredentials.Delete(ctx, client, user, made.ID)
	secret := "application-credential-secret = " + made.Secret
	exists(t, "application-credential-id = "+made.ID, secret)
	exists(t, "application-credential-name = manager", secret, "user-id = "+user)
}

func TestTrust(t *testing.T) {
	client, user := identity(t)
	project, err := compute.GetAuthResult().(tokens.CreateResult).ExtractProject()
	check(t, err)
	made, err := trusts.Create(ctx, client, trusts.CreateOpts{TrustorUserID: user, TrusteeUserID: user, ProjectID: project.ID,
		Roles: []trusts.Role{{Name: "member"}}}).Extract()
	check(t, err)
	defer trusts.Delete(ctx, client, made.ID)
	exists(t, "user-id = "+user, "password = "+os.Getenv("OS_PASSWORD"), "trust-id = "+made.ID)
}

// TestKeystoneAuth has the calls of the webhook that checks the tokens of Kubernetes' users.
func TestKeystoneAuth(t *testing.T) {
	client, user := identity(t)
	webhook, token := keystone.NewKeystoner(client), compute.Token()
	_, err := webhook.GetTokenInfo(ctx, token)
	check(t, err)
	groups, err := webhook.GetGroups(ctx, token, user)
	check(t, err)
	equal(t, "the number of groups", len(groups), 0)
	if _, err = webhook.GetTokenInfo(ctx, "unknown"); err == nil {
		t.Fatal("Failure: an unknown token is valid")
	}
}

// TestKeyManager runs the plugin that encrypts the secrets of Kubernetes with a key of the key manager.
func TestKeyManager(t *testing.T) {
	client, err := openstack.NewKeyManagerV1(compute.ProviderClient, gophercloud.EndpointOpts{Region: region})
	check(t, err)
	made, err := secrets.Create(ctx, client, secrets.CreateOpts{Name: "kubernetes", Algorithm: "aes", BitLength: 256, Mode: "cbc",
		SecretType: secrets.SymmetricSecret, PayloadContentType: "application/octet-stream", PayloadContentEncoding: "base64",
		Payload: "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}).Extract()
	check(t, err)
	id := filepath.Base(made.SecretRef)
	defer secrets.Delete(ctx, client, id)
	directory := t.TempDir()
	file, socket, stop := filepath.Join(directory, "cloud.conf"), filepath.Join(directory, "kms"), make(chan os.Signal)
	check(t, os.WriteFile(file, []byte(global()+"[KeyManager]\nkey-id = "+id+"\n"), 0o600))
	go kmsserver.Run(file, socket, stop)
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(t, err)
	defer connection.Close()
	plugin := kms.NewKeyManagementServiceClient(connection)
	sealed, err := plugin.Encrypt(ctx, &kms.EncryptRequest{Plaintext: []byte("secret of a pod")}, grpc.WaitForReady(true))
	check(t, err)
	equal(t, "the text in the clear", bytes.Contains(sealed.Ciphertext, []byte("secret")), false)
	opened, err := plugin.Decrypt(ctx, &kms.DecryptRequest{Ciphertext: sealed.Ciphertext})
	check(t, err)
	equal(t, "the text", string(opened.Plaintext), "secret of a pod")
}
