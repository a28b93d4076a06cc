package main_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/regtest"
)

// What must not be seen anywhere.
const (
	password  = `hunter:2,"s%cret`
	signature = "c2lnbmVkLWJ5LXRoZS1jZG4"
	jti       = "dckr_jti_NGZyb20tZG9ja2VyLWh1Yg"
	runtimeID = "eyJhbGciOiJub25lIn0.eyJhYyI6IltdIn0.cnVudGltZS10b2tlbg"
)

// forms are what a secret may look like in a text.
func forms(secret string) []string {
	quoted, _ := json.Marshal(secret)
	return []string{
		secret, string(quoted[1 : len(quoted)-1]), url.QueryEscape(secret), url.PathEscape(secret),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte("me:" + secret)),
	}
}

// misbehaviour is a registry that gives secrets away, and how it is spoken to.
type misbehaviour struct {
	auth  *regtest.Auth
	match regtest.Match
	fault regtest.Fault
	// says is a part of the message, to know that the fault was met.
	says string
}

func misbehaviours(t *testing.T) map[string]misbehaviour {
	t.Helper()
	blob := regtest.Match{Kind: regtest.KindBlob}
	signed := func(base string) regtest.Fault {
		return func(w http.ResponseWriter, req *http.Request, _ http.Handler) {
			http.Redirect(w, req, base+req.URL.Path+"?sp=r&sig="+signature, http.StatusTemporaryRedirect)
		}
	}
	cdn := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		regtest.Answer(http.StatusNotFound, "text/plain", "gone: http://"+req.Host+req.URL.String())(w, req, nil)
	}))
	t.Cleanup(cdn.Close)
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	return map[string]misbehaviour{
		"password repeated": {
			auth:  &regtest.Auth{Basic: true, User: "me", Password: password},
			match: regtest.Match{Kind: regtest.KindManifest}, fault: repeats, says: "you sent me",
		},
		"password in the token exchange": {
			auth:  &regtest.Auth{User: "me", Password: password},
			match: regtest.Match{Kind: regtest.KindToken}, fault: repeats, says: "you sent me",
		},
		"signed URL in a body":     {match: blob, fault: signed(cdn.URL), says: "gone: http://"},
		"signed URL not connected": {match: blob, fault: signed(away.URL), says: "connect"},
		"token id of Docker Hub": {
			fault: regtest.Answer(http.StatusNotFound, "application/json", regtest.ErrorBody("DENIED", "no pull for "+jti)), says: "no pull for",
		},
	}
}

// repeats refuses a request that shows credentials, with a body that tells them.
func repeats(w http.ResponseWriter, req *http.Request, next http.Handler) {
	user, given, ok := req.BasicAuth()
	if !ok {
		next.ServeHTTP(w, req)
		return
	}
	text := fmt.Sprintf("you sent %s %s, or %s, as %s", user, given, url.QueryEscape(given), req.Header.Get("Authorization"))
	regtest.Answer(http.StatusForbidden, "application/json", regtest.ErrorBody("DENIED", text))(w, req, nil)
}

// TestSecretsAreSeenNowhere runs the program into registries that give secrets away, and looks at all that it leaves.
func TestSecretsAreSeenNowhere(t *testing.T) {
	t.Parallel()
	for name, m := range misbehaviours(t) {
		for _, flags := range []string{"", " --json"} {
			t.Run(name+flags, func(t *testing.T) {
				t.Parallel()
				reg, ref := serve(t, regtest.Options{Auth: m.auth})
				reg.Always(m.match, m.fault)
				j := newJob(t)
				login(t, j, strings.Split(ref, "/")[0])
				env := j.environment(t, "run")
				env["ACTIONS_RUNTIME_TOKEN"], env["RUNNER_DEBUG"] = runtimeID, "1"
				command := j.action + "/bin/pullonce prime --timeout 1s --store dir:.pullonce --images " + ref + flags + "\n"

				failed := j.step(t, env, command)
				require.Equal(t, 1, failed.code, failed)
				require.Contains(t, failed.stdout+failed.stderr, m.says)
				requireNoSecrets(t, j, failed)

				delete(env, "GITHUB_ACTIONS") // and in front of a person
				failed = j.step(t, env, command)
				require.Equal(t, 1, failed.code, failed)
				require.Contains(t, failed.stderr, m.says)
				requireNoSecrets(t, j, failed)
			})
		}
	}
}

// login stores the password as docker login does.
func login(t *testing.T, j job, host string) {
	t.Helper()
	auth := base64.StdEncoding.EncodeToString([]byte("me:" + password))
	write(t, filepath.Join(j.work, "home", ".docker", "config.json"), fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, auth))
}

// requireNoSecrets looks for the secrets in the streams, where only the command that masks one may hold it, and in every
// file of the runner.
func requireNoSecrets(t *testing.T, j job, s said) {
	t.Helper()
	var log strings.Builder
	for line := range strings.Lines(s.stdout + s.stderr) {
		if !strings.HasPrefix(line, "::add-mask::") {
			log.WriteString(line)
		}
	}
	texts := map[string]string{"the log": log.String()}
	require.NoError(t, fs.WalkDir(os.DirFS(j.work), "_temp", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			texts[path] = read(t, filepath.Join(j.work, path))
		}
		return err
	}))
	for _, secret := range []string{password, signature, jti, runtimeID} {
		for _, form := range forms(secret) {
			for where, text := range texts {
				require.NotContains(t, text, form, where)
			}
		}
	}
}

// TestCacheServiceSecretsAreSeenNowhere is the same for a cache service that repeats the token, for prime and lane.
func TestCacheServiceSecretsAreSeenNowhere(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body := fmt.Sprintf(`{"code":"malformed","msg":"no leave for %s at https://blob.example/?sig=%s"}`,
			strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer "), signature)
		regtest.Answer(http.StatusBadRequest, "application/json", body)(w, req, nil)
	}))
	t.Cleanup(service.Close)
	_, ref := serve(t, regtest.Options{})
	for mode, code := range map[string]int{"prime": 1, "load": 0} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			got := j.uses(t, map[string]string{"mode": mode, "images": ref, "into": "none"}, map[string]string{
				"ACTIONS_RUNTIME_TOKEN": runtimeID, "ACTIONS_RESULTS_URL": service.URL + "/", "RUNNER_DEBUG": "1",
			})
			require.Equal(t, code, got.code, got)
			require.Contains(t, got.stdout, "no leave for")
			require.Contains(t, got.stdout, "::add-mask::"+runtimeID+"\n")
			requireNoSecrets(t, j, got)
		})
	}
}

// TestForeignTextChangesNothing answers with commands for the runner in place of an image, an engine and a cache service.
func TestForeignTextChangesNothing(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"set-output": "::set-output name=key::evil", "stop-commands": "::stop-commands::x", "old form": "##[error]boom",
		"several lines": "\r\n::add-mask::a\n##[set-env name=PATH]/evil", "indented": " \t::error::x", "separator": "text\u2028::warning::y",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reg, ref := serve(t, regtest.Options{})
			j := newJob(t)
			env := j.environment(t, "run")
			planned := j.step(t, env, j.action+"/bin/pullonce plan --images "+ref+"\n")
			require.Zero(t, planned.code, planned)
			for _, kind := range []string{"text/plain", "application/json"} {
				text := body
				if kind == "application/json" {
					text = regtest.ErrorBody(body, body)
				}
				reg.ClearFaults()
				reg.Always(regtest.Match{}, regtest.Answer(http.StatusNotFound, kind, text))
				for _, command := range []string{"prime", "prime --json", "load --into none", "load --into none --json", "load --json --on-miss fail"} {
					env["DOCKER_HOST"] = engine(t, text)
					got := j.step(t, env, j.action+"/bin/pullonce "+command+" --store dir:.pullonce --images "+ref+"\n")
					requireOnlyOurCommands(t, got)
					require.Equal(t, planned.outputs["key"], got.outputs["key"])
					require.NotContains(t, strings.Join(sorted(got.outputs), " "), "evil")
					for _, file := range []string{"GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE"} {
						require.Empty(t, read(t, env[file]))
					}
				}
			}
		})
	}
}

// engine is the address of something on loopback that says text to whatever is asked.
func engine(t *testing.T, text string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		regtest.Answer(http.StatusInternalServerError, "application/json", text)(w, req, nil)
	}))
	t.Cleanup(server.Close)
	return "tcp://" + strings.TrimPrefix(server.URL, "http://")
}

// requireOnlyOurCommands holds both streams, which the runner reads, to commands that the program issues of itself.
func requireOnlyOurCommands(t *testing.T, s said) {
	t.Helper()
	found := commands(s.stdout + "\n" + s.stderr)
	require.NotEmpty(t, found, "the problem is an annotation")
	require.Subset(t, []string{"error", "warning", "notice"}, names(found), found)
	for _, command := range found {
		require.Regexp(t, `^::(error|warning|notice) title=pullonce%3A `, command)
		require.NotContains(t, command, "##[")
	}
}

func sorted(outputs map[string]string) []string {
	var all []string
	for name, value := range maps.All(outputs) {
		all = append(all, name+"="+value)
	}
	return all
}
