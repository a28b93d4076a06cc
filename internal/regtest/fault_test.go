package regtest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullonce/pullonce/internal/regtest"
)

// blobFixture is a registry with one image and the path of its layer.
func blobFixture(o regtest.Options) (reg *regtest.Registry, path string, size int64) {
	img := regtest.RandomImage(1, 1, 100_000)
	reg = regtest.New(o)
	reg.Add("app:1", img)
	return reg, "/v2/app/blobs/" + img.Layers[0].Digest.String(), img.Layers[0].Size
}

var blobs = regtest.Match{Kind: regtest.KindBlob}

func TestScriptGoesByRequest(t *testing.T) {
	t.Parallel()
	reg, path, _ := blobFixture(regtest.Options{})
	reg.Script(blobs, regtest.Status(502), regtest.Pass, regtest.Answer(403, "text/plain", "denied", "Retry-After", "9"))
	require.Equal(t, 502, get(t, reg, path).StatusCode)
	require.Equal(t, 200, get(t, reg, "/v2/app/manifests/1").StatusCode)
	require.Equal(t, 200, get(t, reg, path).StatusCode)
	denied := get(t, reg, path)
	require.Equal(t, 403, denied.StatusCode)
	require.Equal(t, "9", denied.Header.Get("Retry-After"))
	require.Equal(t, "denied", body(t, denied))
	require.Equal(t, 200, get(t, reg, path).StatusCode)
	require.Equal(t, []int{502, 200, 403, 200}, reg.Log().Of(regtest.KindBlob).Statuses())

	reg.Always(blobs, regtest.HTML())
	require.Equal(t, "text/html; charset=utf-8", get(t, reg, path).Header.Get("Content-Type"))
	reg.ClearFaults()
	require.Equal(t, 200, get(t, reg, path).StatusCode)
}

// TestBodyFaults sees each fault twice: through the in-process transport and over TCP.
func TestBodyFaults(t *testing.T) {
	t.Parallel()
	_, _, size := blobFixture(regtest.Options{})
	for title, c := range map[string]struct {
		fault    regtest.Fault
		declared int64
		received int64 // -1: up to the kernel
		err      error
	}{
		"truncate":       {regtest.Truncate(50_000), size, 50_000, io.ErrUnexpectedEOF},
		"truncate small": {regtest.Truncate(5), size, 5, io.ErrUnexpectedEOF},
		"reset":          {regtest.Reset(50_000), size, -1, syscall.ECONNRESET},
		"shorter":        {regtest.Resize(-10), size - 10, size - 10, nil},
		"longer":         {regtest.Resize(10), size + 10, size + 10, nil},
		"flip":           {regtest.Flip(70_000), size, size, nil},
		"drip":           {regtest.Drip(60_000, time.Millisecond), size, size, nil},
		"delay":          {regtest.Delay(time.Millisecond), size, size, nil},
	} {
		for wire, over := range map[string]func(*testing.T, *regtest.Registry) (http.RoundTripper, string){
			"in process": inProcess, "over TCP": overTCP,
		} {
			t.Run(title+" "+wire, func(t *testing.T) {
				t.Parallel()
				reg, path, _ := blobFixture(regtest.Options{})
				transport, base := over(t, reg)
				good := read(t, transport, base+path)
				require.NoError(t, good.err)
				require.Len(t, good.data, int(size))
				reg.Script(blobs, c.fault)
				bad := read(t, transport, base+path)
				require.Equal(t, c.declared, bad.declared)
				require.ErrorIs(t, bad.err, c.err)
				if c.received >= 0 {
					require.Len(t, bad.data, int(c.received))
				}
				if title == "flip" {
					require.Equal(t, good.data[70_000]^1, bad.data[70_000])
					bad.data[70_000] ^= 1
					require.Equal(t, good.data, bad.data)
				}
			})
		}
	}
}

func TestFlipGoesByTheOffsetInTheBlob(t *testing.T) {
	t.Parallel()
	reg, path, _ := blobFixture(regtest.Options{})
	good := []byte(body(t, get(t, reg, path)))
	reg.Always(blobs, regtest.Flip(70_000))
	part := []byte(body(t, get(t, reg, path, "Range", "bytes=60000-")))
	require.Equal(t, good[70_000]^1, part[10_000])
	part[10_000] ^= 1
	require.Equal(t, good[60_000:], part)
	require.Equal(t, string(good[70_001:]), body(t, get(t, reg, path, "Range", "bytes=70001-")))
}

func TestEveryStageCanFail(t *testing.T) {
	t.Parallel()
	img := regtest.RandomImage(1, 1, 10)
	index := regtest.NewIndex(img)
	paths := map[regtest.Kind]string{
		regtest.KindPing:     "/v2/",
		regtest.KindToken:    "/token",
		regtest.KindIndex:    "/v2/app/manifests/1",
		regtest.KindManifest: "/v2/app/manifests/" + img.Descriptor().Digest.String(),
		regtest.KindConfig:   "/v2/app/blobs/" + img.ConfigDigest().String(),
		regtest.KindBlob:     "/v2/app/blobs/" + img.Layers[0].Digest.String(),
	}
	for kind := range paths {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			reg := regtest.New(regtest.Options{Auth: &regtest.Auth{Public: []string{"*"}}})
			reg.Add("app:1", index)
			require.Equal(t, 200, get(t, reg, "/token").StatusCode)
			reg.Always(regtest.Match{Kind: kind}, regtest.Status(599))
			for other, path := range paths {
				want := 200
				if other == kind {
					want = 599
				}
				require.Equal(t, want, get(t, reg, path, "Authorization", "Bearer regtest-token-1").StatusCode, other)
			}
		})
	}
}

func TestScriptsMatch(t *testing.T) {
	t.Parallel()
	reg := regtest.New(regtest.Options{})
	reg.Add("app:1", regtest.RandomImage(1, 1, 10))
	reg.Add("other:2", regtest.RandomImage(2, 1, 10))
	reg.Always(regtest.Match{Repository: "other"}, regtest.Status(501))
	reg.Script(regtest.Match{Reference: "1", Method: http.MethodGet, Host: "registry.example", Client: "10.0.0.1"}, regtest.Status(502))
	reg.Script(regtest.Match{Client: "10.0.0.2"}, regtest.Status(503))
	require.Equal(t, 501, get(t, reg, "/v2/other/manifests/2").StatusCode)
	require.Equal(t, 502, get(t, reg, "/v2/app/manifests/1").StatusCode)
	require.Equal(t, 200, get(t, reg, "/v2/app/manifests/1").StatusCode)
}

func TestWhatIsNotThere(t *testing.T) {
	t.Parallel()
	reg, path, _ := blobFixture(regtest.Options{})
	for missing, code := range map[string]string{
		"/v2/app/manifests/2":               "MANIFEST_UNKNOWN",
		"/v2/other/manifests/1":             "MANIFEST_UNKNOWN",
		"/v2/app/blobs/sha256:00":           "BLOB_UNKNOWN",
		"/v2/app/tags":                      "NOT_FOUND",
		"/":                                 "NOT_FOUND",
		"/token":                            "NOT_FOUND",
		path[:len(path)-1] + "zzz":          "BLOB_UNKNOWN",
		"/v2/other" + path[len("/v2/app"):]: "BLOB_UNKNOWN",
		"/v2/app/manifests/" + path[len(path)-71:]: "MANIFEST_UNKNOWN", // a blob is no manifest
	} {
		resp := get(t, reg, missing)
		require.Equal(t, 404, resp.StatusCode, missing)
		require.Contains(t, body(t, resp), code, missing)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://registry.example/v2/app/blobs/uploads/", http.NoBody)
	require.NoError(t, err)
	resp, err := reg.Transport("a").RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 405, resp.StatusCode, "read-only")
}

func TestDropEndsTheConnectionWithoutAHeader(t *testing.T) {
	t.Parallel()
	reg, path, _ := blobFixture(regtest.Options{})
	transport, base := overTCP(t, reg)
	reg.Script(blobs, regtest.Drop())
	require.ErrorIs(t, read(t, transport, base+path).err, syscall.ECONNRESET)

	reg.Script(blobs, regtest.Drop(), regtest.Fail(syscall.ECONNREFUSED))
	transport, base = inProcess(t, reg)
	require.ErrorIs(t, read(t, transport, base+path).err, syscall.ECONNRESET)
	require.ErrorIs(t, read(t, transport, base+path).err, syscall.ECONNREFUSED)
}

func TestHangAndStallLastUntilTheClientGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg, path, _ := blobFixture(regtest.Options{})
		reg.Script(blobs, regtest.Hang(), regtest.Stall(1000))
		gaveUp := errors.New("gave up")

		ctx, cancel := context.WithTimeoutCause(t.Context(), 15*time.Second, gaveUp)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://registry.example"+path, nil)
		require.NoError(t, err)
		start := time.Now()
		_, err = reg.Transport("a").RoundTrip(req)
		require.ErrorIs(t, err, gaveUp)
		require.Equal(t, 15*time.Second, time.Since(start))

		ctx, cancel = context.WithTimeoutCause(t.Context(), 30*time.Second, gaveUp)
		defer cancel()
		resp, err := reg.Transport("a").RoundTrip(req.WithContext(ctx))
		require.NoError(t, err)
		data, err := io.ReadAll(resp.Body)
		require.ErrorIs(t, err, gaveUp)
		require.Len(t, data, 1000)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 45*time.Second, time.Since(start))
	})
}

func TestServerClosesOverHangingRequests(t *testing.T) {
	t.Parallel()
	reg, path, _ := blobFixture(regtest.Options{})
	reg.Always(blobs, regtest.Stall(10))
	server, err := reg.Start(regtest.Listen{})
	require.NoError(t, err)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
	require.NoError(t, err)
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, server.Close())
	_, err = io.ReadAll(resp.Body)
	require.Error(t, err)
	require.NoError(t, resp.Body.Close())
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	origin, path, size := blobFixture(regtest.Options{
		CDN: "https://cdn.example", Auth: &regtest.Auth{Basic: true, User: "u", Password: "p"},
	})
	cdn := regtest.New(regtest.Options{Upstream: origin})
	client := http.Client{Transport: regtest.Transport("a", map[string]http.Handler{"registry.example": origin, "cdn.example": cdn})}

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://registry.example"+path, nil)
	require.NoError(t, err)
	req.SetBasicAuth("u", "p")
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.Len(t, body(t, resp), int(size))
	require.Equal(t, "X-Amz-Signature=sealed", cdn.Log()[0].Query)
	require.Empty(t, cdn.Log()[0].Header.Get("Authorization"))
	require.Equal(t, []int{307}, origin.Log().Statuses())

	origin.Always(blobs, regtest.RedirectLoop())
	_, err = client.Do(req)
	require.ErrorContains(t, err, "stopped after 10 redirects")
	origin.ClearFaults()
	origin.Script(blobs, regtest.Redirect("https://elsewhere.example"))
	_, err = client.Do(req)
	require.ErrorContains(t, err, "no such host")
}

func TestExpiredTokenIsRefusedAndReplaced(t *testing.T) {
	t.Parallel()
	reg, path, _ := blobFixture(regtest.Options{Auth: &regtest.Auth{Public: []string{"app"}}})
	reg.Script(blobs, regtest.Pass, reg.ExpireTokens())
	require.Equal(t, 401, get(t, reg, path).StatusCode)
	require.Contains(t, body(t, get(t, reg, "/token")), "regtest-token-1")
	require.Equal(t, 401, get(t, reg, path, "Authorization", "Bearer regtest-token-1").StatusCode, "the fault expired it")
	require.Contains(t, body(t, get(t, reg, "/token")), "regtest-token-2")
	require.Equal(t, 200, get(t, reg, path, "Authorization", "Bearer regtest-token-2").StatusCode)
}

func TestTokenExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg, path, _ := blobFixture(regtest.Options{Auth: &regtest.Auth{Public: []string{"app"}, TTL: time.Minute}})
		require.Contains(t, body(t, get(t, reg, "/token")), `"expires_in":60`)
		require.Equal(t, 200, get(t, reg, path, "Authorization", "Bearer regtest-token-1").StatusCode)
		time.Sleep(time.Minute)
		require.Equal(t, 401, get(t, reg, path, "Authorization", "Bearer regtest-token-1").StatusCode)
	})
}

type answer struct {
	declared int64
	data     []byte
	err      error
}

func read(t *testing.T, transport http.RoundTripper, url string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return answer{err: err}
	}
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, resp.Body.Close())
	return answer{resp.ContentLength, data, err}
}

func inProcess(_ *testing.T, reg *regtest.Registry) (http.RoundTripper, string) {
	return reg.Transport("10.0.0.1"), "http://registry.example"
}

func overTCP(t *testing.T, reg *regtest.Registry) (http.RoundTripper, string) {
	t.Helper()
	server, err := reg.Start(regtest.Listen{})
	require.NoError(t, err)
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		require.NoError(t, server.Close())
	})
	return transport, server.URL
}

func body(t *testing.T, resp *http.Response) string {
	t.Helper()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(data)
}
