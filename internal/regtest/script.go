package regtest

import "sync"

// Match says which requests a script is for. An empty field matches every request.
type Match struct {
	Kind       Kind
	Method     string
	Host       string
	Repository string
	Reference  string // the tag or digest
	Client     string // the client's IP
}

func (m Match) matches(r Request) bool {
	same := func(want, have string) bool { return want == "" || want == have }
	return same(string(m.Kind), string(r.Kind)) && same(m.Method, r.Method) && same(m.Host, r.Host) &&
		same(m.Repository, r.Repository) && same(m.Reference, r.Reference) && same(m.Client, r.Client)
}

// Script gives the first request that matches the first fault, the second the second, and so on; later ones are served
// well. Where several scripts match, the one added first goes first until it is used up.
func (r *Registry) Script(m Match, faults ...Fault) {
	r.script.add(&rule{match: m, left: faults})
}

// Always gives every request that matches the fault.
func (r *Registry) Always(m Match, f Fault) {
	r.script.add(&rule{match: m, left: []Fault{f}, forever: true})
}

// ClearFaults forgets every script.
func (r *Registry) ClearFaults() {
	r.script.mu.Lock()
	defer r.script.mu.Unlock()
	r.script.rules = nil
}

type script struct {
	mu    sync.Mutex
	rules []*rule
}

type rule struct {
	match   Match
	left    []Fault
	forever bool
}

func (s *script) add(r *rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, r)
}

// next is the fault for a request.
func (s *script) next(req Request) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rules {
		if len(r.left) == 0 || !r.match.matches(req) {
			continue
		}
		f := r.left[0]
		if !r.forever {
			r.left = r.left[1:]
		}
		return f
	}
	return Pass
}
