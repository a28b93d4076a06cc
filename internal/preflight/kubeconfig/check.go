package kubeconfig

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
)

// check refuses what is no use, or contradicts itself.
func (c Config) check() error {
	return errors.Join(c.Cluster.check(), c.User.check())
}

func (c Cluster) check() error {
	switch {
	case c.Server == "":
		return errors.New("the cluster has no server")
	case c.Insecure && c.Authority.there():
		return errors.New("the cluster has an authority and insecure-skip-tls-verify, which exclude each other")
	}
	if c.ProxyURL == "" {
		return nil
	}
	proxy, err := url.Parse(c.ProxyURL)
	if err != nil {
		return errors.New("proxy-url is no URL") // which may hold a password
	}
	if !slices.Contains([]string{"http", "https", "socks5"}, proxy.Scheme) {
		return fmt.Errorf("proxy-url: unsupported scheme %q", proxy.Scheme)
	}
	return nil
}

func (u User) check() error {
	token, basic := u.Token != "" || u.TokenFile != "", u.Username != "" || u.Password != ""
	switch {
	case token && basic:
		return errors.New("the user has a token and a password, which exclude each other")
	case u.Certificate.there() != u.Key.there():
		return errors.New("the user has a certificate or a key, and needs both")
	case u.Provider != "":
		return fmt.Errorf("the auth-provider %q is of the past: use a credential plugin (exec)", u.Provider)
	case u.As.User == "" && (u.As.UID != "" || len(u.As.Groups) > 0 || len(u.As.Extra) > 0):
		return errors.New("the user has as-uid, as-groups or as-user-extra, and no as")
	}
	return u.Exec.check()
}

func (e *Exec) check() error {
	switch {
	case e == nil:
		return nil
	case e.Command == "":
		return errors.New("the user's exec has no command")
	case !slices.Contains([]string{"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"}, e.APIVersion):
		return fmt.Errorf("the user's exec has an unsupported apiVersion %q", e.APIVersion)
	case !slices.Contains([]string{"Never", "IfAvailable", "Always"}, e.InteractiveMode):
		return fmt.Errorf("the user's exec has an unsupported interactiveMode %q", e.InteractiveMode)
	case e.InteractiveMode == "Always":
		return errors.New("the user's exec wants to talk to somebody, and nobody is there")
	default:
		return nil
	}
}
