package cluster

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"

	"github.com/pullonce/pullonce/internal/preflight/kubeconfig"
)

// fingerprint is a digest of a user, as far as one can be told from here: who they are, where the credentials say so, and
// else the credentials themselves. Tokens and certificates are renewed now and then: the user stays the same. It is "" where a program makes the credentials: whose
// they are, only the program knows, which may decide anew each time it is run.
func fingerprint(u kubeconfig.User) (string, error) {
	if u.Exec != nil {
		return "", nil
	}
	token, err := tokenOf(u)
	if err != nil {
		return "", err
	}
	certificate, err := u.Certificate.Read()
	if err != nil {
		return "", fmt.Errorf("reading the client's certificate: %w", err)
	}
	data, err := json.Marshal(struct {
		Token, Certificate, Username, Password string
		As                                     kubeconfig.Impersonation
	}{tokenOwner(token), certificateOwner(certificate), u.Username, digest(u.Password), u.As})
	if err != nil {
		return "", fmt.Errorf("telling users apart: %w", err)
	}
	return digest(string(data)), nil
}

func digest(data string) string {
	sum := sha256.Sum256([]byte(data))
	return hex.EncodeToString(sum[:])
}

// tokenOwner is whose the token is: issuer and subject, where it is a JSON web token. It is not verified here: a forged one
// gains its holder nothing, because a verdict opens no door.
func tokenOwner(token string) string {
	if parts := strings.Split(token, "."); len(parts) == 3 {
		var claims struct{ Iss, Sub string }
		payload, err := base64.RawURLEncoding.DecodeString(parts[1])
		if err == nil && json.Unmarshal(payload, &claims) == nil && claims.Sub != "" {
			return claims.Iss + " " + claims.Sub
		}
	}
	return digest(token)
}

// certificateOwner is whose the client certificate is: its subject, which is what the API takes names and groups from.
func certificateOwner(data []byte) string {
	if block, _ := pem.Decode(data); block != nil {
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			return digest(string(certificate.RawSubject))
		}
	}
	return digest(string(data))
}
