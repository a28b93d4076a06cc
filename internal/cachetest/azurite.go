package cachetest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
)

// Azurite's one account, from its documentation. The key is no secret.
const (
	account    = "devstoreaccount1"
	accountKey = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
	container  = "cache"
	// sasVersion is a version of the signatures that Azurite computes as the SDK does.
	sasVersion = "2021-12-02"
)

// AzureHost is the host of Azurite's account as Azure would name it. @actions/cache treats such hosts in its own way.
// Nothing resolves it to this machine by itself.
const AzureHost = account + ".blob.core.windows.net"

// AzuriteOptions say how Azurite is run.
type AzuriteOptions struct {
	// Modules is the node_modules folder that it is installed in.
	Modules string
	// Dir is where it keeps blobs and its log.
	Dir string
	// Azure signs URLs for AzureHost instead of 127.0.0.1.
	Azure bool
}

// Azurite is an Azurite process on loopback with one container.
type Azurite struct {
	azure   bool
	port    int
	key     *blob.SharedKeyCredential
	process *exec.Cmd
	client  http.Client
}

var _ Blobs = (*Azurite)(nil)

// StartAzurite starts Azurite and waits until it serves. Close ends it.
func StartAzurite(ctx context.Context, o AzuriteOptions) (*Azurite, error) {
	key, err := blob.NewSharedKeyCredential(account, accountKey)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(o.Dir, "azurite.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	a := &Azurite{azure: o.Azure, port: port, key: key}
	a.process = exec.Command("node", filepath.Join(o.Modules, "azurite", "dist", "src", "blob", "main.js"),
		"--blobHost", "127.0.0.1", "--blobPort", fmt.Sprint(port), "--location", o.Dir,
		"--silent", "--loose", "--skipApiVersionCheck", "--disableTelemetry")
	a.process.Stdout, a.process.Stderr = log, log
	if err := a.process.Start(); err != nil {
		return nil, fmt.Errorf("starting Azurite: %w", err)
	}
	if err := a.await(ctx); err != nil {
		a.Close()
		output, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("starting Azurite: %w\n%s", err, output)
	}
	return a, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// await makes the container, as soon as there is somebody to make it.
func (a *Azurite) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := a.makeContainer(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (a *Azurite) makeContainer(ctx context.Context) error {
	values := sas.AccountSignatureValues{
		Version: sasVersion, Protocol: sas.ProtocolHTTPSandHTTP, ExpiryTime: time.Now().Add(time.Hour),
		Permissions: "rwc", ResourceTypes: "co",
	}
	signed, err := values.SignWithSharedKey(a.key)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, a.local(container)+"?restype=container&"+signed.Encode(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("x-ms-version", sasVersion)
	resp, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("making the container: %s", resp.Status)
	}
	return nil
}

// local is the URL of what is in the account, by address.
func (a *Azurite) local(name string) string {
	return fmt.Sprintf("http://127.0.0.1:%d/%s/%s", a.port, account, name)
}

// Sign implements Blobs.
func (a *Azurite) Sign(_, name string, write bool, until time.Time) (string, error) {
	permissions := sas.BlobPermissions{Read: !write, Create: write, Write: write}
	values := sas.BlobSignatureValues{
		Version: sasVersion, Protocol: sas.ProtocolHTTPSandHTTP, ExpiryTime: until.UTC(),
		ContainerName: container, BlobName: name, Permissions: permissions.String(),
	}
	signed, err := values.SignWithSharedKey(a.key)
	if err != nil {
		return "", fmt.Errorf("signing a URL: %w", err)
	}
	base := a.local(container)
	if a.azure {
		base = fmt.Sprintf("http://%s:%d/%s", AzureHost, a.port, container)
	}
	return base + "/" + url.PathEscape(name) + "?" + signed.Encode(), nil
}

// Size implements Blobs.
func (a *Azurite) Size(ctx context.Context, name string) (int64, error) {
	plain := *a
	plain.azure = false
	signed, err := plain.Sign("", name, false, time.Now().Add(time.Minute))
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, signed, nil)
	if err != nil {
		return 0, err
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, nil
	}
	return resp.ContentLength, nil
}

// Dialer dials as usual, and what is meant for AzureHost at this machine. It is for a http.Transport.
func Dialer(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err == nil && host == AzureHost {
		address = net.JoinHostPort("127.0.0.1", port)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

// Close ends the process.
func (a *Azurite) Close() error {
	if err := a.process.Process.Signal(os.Interrupt); err != nil {
		return fmt.Errorf("ending Azurite: %w", err)
	}
	timer := time.AfterFunc(10*time.Second, func() { _ = a.process.Process.Kill() })
	defer timer.Stop()
	_ = a.process.Wait() // its status says nothing after a signal
	return nil
}
