package cluster

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/pullonce/pullonce/internal/preflight/kubeconfig"
)

// credential is what a request is sent with.
type credential struct {
	authorization string
	certificate   *tls.Certificate
	as            kubeconfig.Impersonation
	// expires is when it is of no use any more; the zero value is never.
	expires time.Time
	// made is that of the plugin which this has its parts from, or nil.
	made *credential
}

// credential reads a user's credentials as they are now, or has them made. What is in the configuration itself comes
// before what a program makes, as it does for kubectl.
func (a *API) credential(ctx context.Context, c kubeconfig.Config) (*credential, error) {
	u := c.User
	who := &credential{as: u.As}
	token, err := tokenOf(u)
	if err != nil {
		return nil, err
	}
	switch {
	case token != "":
		who.authorization = "Bearer " + token
	case u.Username != "" || u.Password != "":
		who.authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username+":"+u.Password))
	}
	if who.certificate, err = certificateOf(u); err != nil {
		return nil, err
	}
	if u.Exec == nil {
		return who, nil
	}
	if who.made, err = a.plugin.credential(ctx, c); err != nil {
		return nil, err
	}
	if who.authorization == "" {
		who.authorization = who.made.authorization
	}
	if who.certificate == nil {
		who.certificate = who.made.certificate
	}
	return who, nil
}

// tokenOf reads a user's token, or "".
func tokenOf(u kubeconfig.User) (string, error) {
	if u.TokenFile == "" {
		return u.Token, nil
	}
	data, err := os.ReadFile(u.TokenFile)
	if err != nil {
		return "", fmt.Errorf("reading the token: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", fmt.Errorf("reading the token: %s is empty", u.TokenFile)
	}
	return token, nil
}

// certificateOf reads a user's certificate and key, or nothing.
func certificateOf(u kubeconfig.User) (*tls.Certificate, error) {
	certificate, err := u.Certificate.Read()
	if err != nil {
		return nil, fmt.Errorf("reading the client's certificate: %w", err)
	}
	key, err := u.Key.Read()
	if err != nil {
		return nil, fmt.Errorf("reading the client's key: %w", err)
	}
	if certificate == nil && key == nil {
		return nil, nil //nolint:nilnil // no certificate is no failure
	}
	return pair(certificate, key)
}

func pair(certificate, key []byte) (*tls.Certificate, error) {
	if certificate == nil || key == nil {
		return nil, errors.New("the client has a certificate or a key, and needs both")
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("reading the client's certificate: %w", err)
	}
	return &pair, nil
}

// sign adds what tells who asks.
func (c *credential) sign(header http.Header) {
	if c.authorization != "" {
		header.Set("Authorization", c.authorization)
	}
	if c.as.User == "" {
		return
	}
	header.Set("Impersonate-User", c.as.User)
	if c.as.UID != "" {
		header.Set("Impersonate-Uid", c.as.UID)
	}
	for _, group := range c.as.Groups {
		header.Add("Impersonate-Group", group)
	}
	for key, values := range c.as.Extra {
		for _, value := range values {
			header.Add("Impersonate-Extra-"+escapeKey(key), value)
		}
	}
}

// escapeKey spells a key with what the name of a header may have (RFC 9110, 5.6.2) and percent signs for the rest, which
// is how the API reads it.
func escapeKey(key string) string {
	var b strings.Builder
	for i := range len(key) {
		if c := key[i]; c > ' ' && c < 0x7f && !strings.ContainsRune(`"(),/:;<=>?@[\]{}%`, rune(c)) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
