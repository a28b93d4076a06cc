package regtest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// answer is the registry without auth, throttle and faults.
func (r *Registry) answer(e *entry) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
		switch {
		case req.Method != http.MethodGet && req.Method != http.MethodHead:
			writeError(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "the registry is read-only")
		case e.Kind == KindPing:
			w.Header().Set("Content-Length", "2")
			_, _ = w.Write([]byte("{}"))
		case e.Kind == KindToken && r.tokens != nil:
			r.tokens.issue(w, req)
		case e.Kind == KindOther || e.Kind == KindToken:
			writeError(w, http.StatusNotFound, "NOT_FOUND", "no such page")
		default:
			r.serveItem(w, req, e)
		}
	})
}

// serveItem answers for a manifest or a blob; ranges are net/http's.
func (r *Registry) serveItem(w http.ResponseWriter, req *http.Request, e *entry) {
	if !e.found {
		writeMissing(w, e.Kind)
		return
	}
	if r.options.CDN != "" && e.Kind == KindBlob {
		http.Redirect(w, req, r.options.CDN+req.URL.Path+"?X-Amz-Signature=sealed", http.StatusTemporaryRedirect)
		return
	}
	if r.options.NoRange {
		req.Header.Del("Range")
	}
	w.Header().Set("Content-Type", e.item.mediaType)
	w.Header().Set("Docker-Content-Digest", e.item.digest.String())
	w.Header().Set("Etag", `"`+e.item.digest.String()+`"`)
	http.ServeContent(w, req, "", time.Time{}, e.item.body.open())
}

func writeMissing(w http.ResponseWriter, k Kind) {
	if k == KindBlob {
		writeError(w, http.StatusNotFound, "BLOB_UNKNOWN", "blob unknown to registry")
		return
	}
	writeError(w, http.StatusNotFound, "MANIFEST_UNKNOWN", "manifest unknown")
}

// ErrorBody is the JSON of an error answer, as the distribution-spec has it under "Error Codes".
func ErrorBody(code, message string) string {
	type entry struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	body, err := json.Marshal(map[string][]entry{"errors": {{code, message}}})
	if err != nil {
		panic(err) // two strings always marshal
	}
	return string(body)
}

func writeError(w http.ResponseWriter, status int, code, message string) {
	writeBody(w, status, "application/json", ErrorBody(code, message))
}

func writeBody(w http.ResponseWriter, status int, mediaType, body string) {
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = strings.NewReader(body).WriteTo(w)
}
