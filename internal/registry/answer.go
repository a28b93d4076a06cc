package registry

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"
)

// answerText says in one line what an answer that is no success said; text is that of its body.
func answerText(resp *http.Response, text string) string {
	status := strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode)))
	if said := clean(text); said != "" {
		return status + ": " + said
	}
	return status
}

// errorText takes the text out of an error body: the codes and messages of the distribution-spec ("Error Codes"), what
// token servers write, or the body itself where it is plain text. A page is not quoted.
func errorText(h http.Header, body []byte) string {
	var doc struct {
		Errors []struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"errors"`
		Details string `json:"details"`
		Message string `json:"message"`
		Error   string `json:"error"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		if isPage(h) {
			return "a web page"
		}
		return string(body)
	}
	var parts []string
	for _, e := range doc.Errors {
		parts = append(parts, strings.TrimPrefix(strings.ToLower(e.Code)+": "+e.Message, ": "))
	}
	for _, text := range []string{doc.Error, doc.Details, doc.Message} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; ")
}

// isPage says whether an answer calls itself a web page.
func isPage(h http.Header) bool {
	mediaType, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return mediaType == "text/html"
}
