package actions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pullonce/pullonce/internal/retry"
	"github.com/pullonce/pullonce/internal/store"
)

// servicePath is where the methods of the cache service are, from the protocol of @actions/cache.
const servicePath = "/twirp/github.actions.results.api.v1.CacheService/"

// maxAnswer bounds an answer of the service, in bytes.
const maxAnswer = 1 << 20

// errExists says that a key is taken: by an entry, or by a reservation that may never become one.
var errExists = errors.New("already exists")

// service is a client of the cache service. Safe for concurrent use.
type service struct {
	base, token string
	transport   http.RoundTripper
	policy      retry.Policy
	mask        func(string)
	pace        pace
}

// create reserves key. A key that is taken is errExists; doubtful then says that an earlier try, of which nothing was
// heard, may be what took it. A token that may not write is store.ErrReadOnly.
func (s *service) create(ctx context.Context, key, version string) (uploadURL string, doubtful bool, err error) {
	unheard := false
	a, err := s.call(ctx, "CreateCacheEntry", map[string]any{"key": key, "version": version}, func(err error) {
		class, _ := retry.ClassOf(err)
		unheard = unheard || class == retry.Transient
	})
	switch {
	case err != nil:
		return "", unheard, err
	case a.ok && a.uploadURL != "":
		return a.uploadURL, false, nil
	case strings.HasPrefix(a.message, "cache write denied"):
		return "", false, fmt.Errorf("%w: %s", store.ErrReadOnly, clean(a.message))
	case a.message == "", strings.Contains(a.message, "already exists"):
		return "", unheard, errExists
	}
	return "", false, fmt.Errorf("the service did not reserve it: %s", clean(a.message))
}

// finalize publishes what was uploaded.
func (s *service) finalize(ctx context.Context, key, version string, size int64) error {
	a, err := s.call(ctx, "FinalizeCacheEntryUpload",
		map[string]any{"key": key, "version": version, "size_bytes": strconv.FormatInt(size, 10)}, nil)
	if err == nil && !a.ok {
		err = fmt.Errorf("the service did not publish it: %s", clean(a.message))
	}
	return err
}

// lookup asks for the first of keys that is there. The service also takes entries whose keys only begin like one of
// them; which it took is matched. None is store.ErrNotFound.
func (s *service) lookup(ctx context.Context, version string, keys ...string) (matched, downloadURL string, err error) {
	a, err := s.call(ctx, "GetCacheEntryDownloadURL", map[string]any{"key": keys[0], "version": version, "restore_keys": keys[1:]}, nil)
	switch {
	case err != nil:
		return "", "", err
	case !a.ok || a.downloadURL == "":
		return "", "", store.ErrNotFound
	}
	return a.matchedKey, a.downloadURL, nil
}

// call calls a method on the schedule. failed is told of each try that failed; it may be nil.
func (s *service) call(ctx context.Context, method string, request map[string]any, failed func(error)) (a answer, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return answer{}, fmt.Errorf("encoding the request: %w", err)
	}
	_, err = retry.Do(ctx, s.policy, func(ctx context.Context, _ int) (err error) {
		if err := s.pace.wait(ctx, s.policy); err != nil {
			return err
		}
		a, err = s.try(ctx, method, body)
		if class, after := retry.ClassOf(err); err != nil && class == retry.Throttled {
			s.pace.coolDown(after)
		}
		if err != nil && failed != nil {
			failed(err)
		}
		return err
	})
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", method, err)
	}
	return a, nil
}

// try is one request. Its answer is masked before anyone else sees it.
func (s *service) try(ctx context.Context, method string, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+method, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "pullonce")
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		return answer{}, networkFault(ctx, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return answer{}, networkFault(ctx, err)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")) // seen in front of error bodies
	if resp.StatusCode/100 != 2 {
		return answer{}, refusal(resp, data)
	}
	a, err := parseAnswer(data)
	if err != nil {
		return answer{}, &fault{class: retry.Transient, text: "the answer is no JSON object", cause: err}
	}
	a.maskSignatures(s.mask)
	return a, nil
}

// refusal is what the service answers instead of yes.
func refusal(resp *http.Response, data []byte) error {
	var body struct{ Code, Msg string }
	_ = json.Unmarshal(data, &body) // whatever else it is, an HTML page as a rule, the status stays
	text := strings.TrimSpace(fmt.Sprintf("HTTP %d %s", resp.StatusCode, body.Code))
	if body.Msg != "" {
		text += ": " + clean(body.Msg)
	}
	f := &fault{status: resp.StatusCode, class: classOf(resp.StatusCode), text: text}
	if after, ok := retry.ParseRetryAfter(resp.Header.Get("Retry-After"), time.Now()); ok {
		f.after = after
	}
	switch {
	case resp.StatusCode == http.StatusConflict, body.Code == "already_exists":
		f.class, f.cause = retry.Permanent, errExists
	case resp.StatusCode == http.StatusNotFound && body.Code == "not_found":
		f.class, f.cause = retry.Permanent, store.ErrNotFound
	case strings.Contains(body.Msg, "cache write denied"):
		f.class, f.cause = retry.Permanent, store.ErrReadOnly
	case strings.Contains(body.Msg, "cache read denied"):
		f.class = retry.Permanent
	}
	return f
}

// answer is what any of the methods answers.
type answer struct {
	ok                     bool
	message, matchedKey    string
	uploadURL, downloadURL string
}

// parseAnswer reads the fields in either spelling: signed_upload_url or signedUploadUrl.
func parseAnswer(data []byte) (answer, error) {
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return answer{}, err
	}
	var a answer
	for name, value := range fields {
		text, _ := value.(string)
		switch strings.ToLower(strings.ReplaceAll(name, "_", "")) {
		case "ok":
			a.ok, _ = value.(bool)
		case "message":
			a.message = text
		case "matchedkey":
			a.matchedKey = text
		case "signeduploadurl":
			a.uploadURL = text
		case "signeddownloadurl":
			a.downloadURL = text
		}
	}
	return a, nil
}

// maskSignatures masks the signatures of the URLs, as they stand there and as they read.
func (a answer) maskSignatures(mask func(string)) {
	for _, signed := range []string{a.uploadURL, a.downloadURL} {
		_, query, _ := strings.Cut(signed, "?")
		for pair := range strings.SplitSeq(query, "&") {
			escaped, ok := strings.CutPrefix(pair, "sig=")
			if !ok || escaped == "" {
				continue
			}
			mask(escaped)
			if plain, err := url.QueryUnescape(escaped); err == nil && plain != escaped {
				mask(plain)
			}
		}
	}
}
