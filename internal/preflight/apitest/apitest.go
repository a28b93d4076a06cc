// Package apitest is a Kubernetes API for tests, as far as a preflight sees one: it answers SelfSubjectAccessReviews over
// TLS, on a socket or on a network in memory, keeps a log of them, and has windows in which it does not answer as it
// should. It knows no client.
package apitest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Fault is what is wrong with the API for a while.
type Fault string

// The faults. Statuses are written as numbers.
const (
	None    Fault = ""
	Refused Fault = "refused" // nobody listens
	Hang    Fault = "hang"    // packets get lost
	Reset   Fault = "reset"   // connections are cut
)

// statuses are the faults that are answers of another kind.
var statuses = map[Fault]int{"400": 400, "401": 401, "403": 403, "404": 404, "408": 408, "409": 409, "429": 429, "500": 500, "502": 502, "503": 503, "504": 504}

// Server is the API. Its fields are set before it is used. Safe for concurrent use.
type Server struct {
	// Denied are permissions that are refused, as in "secrets: delete".
	Denied []string
	// Faults says what is wrong at a time; nil is nothing. It must be safe for concurrent use.
	Faults func(at time.Time) Fault
	// Token is the only bearer token that is taken, at a time; nil takes any.
	Token func(at time.Time) string
	// Body is what is answered with the status BodyStatus, whatever is asked; "" is an answer.
	Body       string
	BodyStatus int

	mu  sync.Mutex
	log []Request
}

// Request is what the server has seen of one connection that came to a request.
type Request struct {
	// Question is what was asked, as in "pods/exec: create in ci".
	Question string
	// At is when it came.
	At time.Time
	// Token is the bearer token, User the common name of the client's certificate, or "".
	Token, User string
	// As are the headers of an impersonation.
	As map[string][]string
	// Status is that of the response.
	Status int
}

// Log is what came since the last time.
func (s *Server) Log() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	return log
}

func (s *Server) fault() Fault {
	if s.Faults == nil {
		return None
	}
	return s.Faults(time.Now())
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body) // the server sees a client go only once the body is read
	if err != nil {
		return
	}
	fault := s.fault()
	if fault == Hang {
		<-r.Context().Done() // which is when the client goes
		return
	}
	seen := Request{At: time.Now(), Token: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), Status: statuses[fault]}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		seen.User = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	for name, values := range r.Header {
		if strings.HasPrefix(name, "Impersonate-") {
			if seen.As == nil {
				seen.As = map[string][]string{}
			}
			seen.As[name] = values
		}
	}
	asked, err := parse(body)
	switch {
	case seen.Status != 0:
	case r.URL.Path != "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
		seen.Status = http.StatusNotFound
	case s.Token != nil && seen.Token != s.Token(seen.At):
		seen.Status = http.StatusUnauthorized
	case err != nil:
		seen.Status = http.StatusBadRequest
	default:
		seen.Status = http.StatusCreated
	}
	seen.Question = asked.String()
	s.mu.Lock()
	s.log = append(s.log, seen)
	s.mu.Unlock()
	if s.Body != "" {
		w.WriteHeader(s.BodyStatus)
		_, _ = io.WriteString(w, s.Body)
		return
	}
	s.answer(w, asked, seen.Status)
}

func (s *Server) answer(w http.ResponseWriter, asked review, status int) {
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	if status != http.StatusCreated {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"kind": "Status", "status": "Failure", "code": status, "message": "the server says " + http.StatusText(status),
		})
		return
	}
	asked.Status.Allowed = !slices.Contains(s.Denied, asked.permission())
	_ = json.NewEncoder(w).Encode(asked)
}

// review is a SelfSubjectAccessReview (authorization.k8s.io/v1).
type review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		ResourceAttributes struct {
			Namespace, Verb, Group, Resource, Subresource string
		} `json:"resourceAttributes"`
	} `json:"spec"`
	Status struct {
		Allowed bool   `json:"allowed"`
		Reason  string `json:"reason,omitempty"`
	} `json:"status"`
}

func parse(body []byte) (review, error) {
	var asked review
	if err := json.Unmarshal(body, &asked); err != nil {
		return asked, fmt.Errorf("reading the question: %w", err)
	}
	if asked.APIVersion != "authorization.k8s.io/v1" || asked.Kind != "SelfSubjectAccessReview" {
		return asked, fmt.Errorf("%s %s is no question", asked.APIVersion, asked.Kind)
	}
	return asked, nil
}

func (r review) permission() string {
	a := r.Spec.ResourceAttributes
	return strings.Trim(a.Group+"/"+a.Resource+"/"+a.Subresource, "/") + ": " + a.Verb
}

// String is the question as tests write it.
func (r review) String() string {
	if namespace := r.Spec.ResourceAttributes.Namespace; namespace != "" {
		return r.permission() + " in " + namespace
	}
	return r.permission()
}
