package workflow

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// minForm is the shortest line or encoded form of a secret that is masked by itself, in bytes. Shorter ones, such as the
// brace that ends a JSON document, stand everywhere and give nothing away.
const minForm = 4

// Mask keeps secret out of the log: out of everything written here from now on, and, in a workflow, out of what any step
// of the job writes. Its lines and the forms it takes in URLs, JSON, base64 and quoted Go strings are masked too; the
// runner knows some of them, act and Gitea know none.
func (r *Runner) Mask(secret string) {
	for _, form := range r.remember(secret) {
		r.issue("add-mask", form, nil)
	}
}

// Scrub replaces what was given to Mask, as in all that is written here. It is for text that goes elsewhere.
func (r *Runner) Scrub(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.secrets.scrub(text)
}

// remember keeps the forms of secret and returns the new ones.
func (r *Runner) remember(secret string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.secrets.add(secret)
}

// secrets are the forms of all secrets, the longest first, so that none is found inside another and masked in part.
type secrets struct {
	forms    []string
	replacer *strings.Replacer
}

// add keeps the forms of secret and returns those that are new.
func (s *secrets) add(secret string) []string {
	var added []string
	for _, form := range formsOf(secret) {
		if !slices.Contains(s.forms, form) {
			s.forms = append(s.forms, form)
			added = append(added, form)
		}
	}
	slices.SortStableFunc(s.forms, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	pairs := make([]string, 0, 2*len(s.forms))
	for _, form := range s.forms {
		pairs = append(pairs, form, "***")
	}
	s.replacer = strings.NewReplacer(pairs...)
	return added
}

// scrub replaces every form of every secret, and what is left of one at a place where the text was cut.
func (s *secrets) scrub(text string) string {
	if s.replacer == nil {
		return text
	}
	return s.scrubCuts(s.replacer.Replace(text))
}

// cutSign is in every mark that a cut leaves, here and in the packages whose texts come here: "…" or " … ".
const cutSign = "…"

// scrubCuts replaces what a cut left of a secret: its beginning before a mark, its end behind one. Less than minForm of
// it gives nothing away.
func (s *secrets) scrubCuts(text string) string {
	parts := strings.Split(text, cutSign)
	for i, part := range parts {
		if i < len(parts)-1 {
			part = s.scrubEnd(part)
		}
		if i > 0 {
			part = s.scrubStart(part)
		}
		parts[i] = part
	}
	return strings.Join(parts, cutSign)
}

// scrubEnd replaces the longest beginning of a form that part ends with. White space before the mark may be the mark's or
// the secret's.
func (s *secrets) scrubEnd(part string) string {
	bare := strings.TrimRight(part, " ")
	for _, body := range []string{part, bare} {
		longest := 0
		for _, form := range s.forms {
			longest = max(longest, overlap(body, form))
		}
		if longest >= minForm {
			return body[:len(body)-longest] + "***" + part[len(bare):]
		}
	}
	return part
}

// scrubStart replaces the longest end of a form that part starts with.
func (s *secrets) scrubStart(part string) string {
	bare := strings.TrimLeft(part, " ")
	for _, body := range []string{part, bare} {
		longest := 0
		for _, form := range s.forms {
			longest = max(longest, overlap(form, body))
		}
		if longest >= minForm {
			return part[:len(part)-len(bare)] + "***" + body[longest:]
		}
	}
	return part
}

// overlap is how many bytes the end of a and the beginning of b have in common at most.
func overlap(a, b string) int {
	for n := min(len(a), len(b)); n > 0; n-- {
		if a[len(a)-n:] == b[:n] {
			return n
		}
	}
	return 0
}

// formsOf lists what secret may look like, itself first.
func formsOf(secret string) []string {
	if strings.TrimSpace(secret) == "" {
		return nil // the runner refuses an empty mask, with a warning
	}
	forms := []string{secret}
	for _, value := range append([]string{secret}, strings.FieldsFunc(secret, isLineBreak)...) {
		value = strings.TrimSpace(value)
		for _, form := range append([]string{value}, encodings(value)...) {
			if len(form) >= minForm && !slices.Contains(forms, form) {
				forms = append(forms, form)
			}
		}
	}
	return forms
}

// encodings are the forms of value in places where secrets have been seen in logs.
func encodings(value string) []string {
	quoted := strconv.Quote(value)
	forms := []string{
		url.QueryEscape(value),
		url.PathEscape(value),
		base64.StdEncoding.EncodeToString([]byte(value)),
		base64.URLEncoding.EncodeToString([]byte(value)),
		quoted[1 : len(quoted)-1],
		harmless(value),
	}
	if encoded, err := json.Marshal(value); err == nil {
		forms = append(forms, string(encoded[1:len(encoded)-1]))
	}
	return forms
}

func isLineBreak(c rune) bool { return c == '\n' || c == '\r' }
