package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Headers are HTTP headers by name. A value may be a template, see [ParseTemplate].
type Headers map[string]Secret

// TemplatePart is a piece of a template: literal text, or an expression about the calling principal.
type TemplatePart struct {
	Text       string
	Expression string // "" for text
}

const openTemplate, closeTemplate = "{{", "}}"

var expressionForm = regexp.MustCompile(`^principal\.(subject|issuer|groups|claims\.[^{}\s\x00-\x1f\x7f]+)$`)

// ParseTemplate parses the value of a header. A value with {{ is a template, with one of
// principal.subject, principal.issuer, principal.groups and principal.claims.<path> between {{ and }}. The
// error does not show the value, which may be secret.
func ParseTemplate(value string) ([]TemplatePart, error) {
	var parts []TemplatePart
	for {
		text, rest, found := strings.Cut(value, openTemplate)
		if text != "" {
			parts = append(parts, TemplatePart{Text: text})
		}
		if !found {
			return parts, nil
		}
		expression, after, closed := strings.Cut(rest, closeTemplate)
		if !closed {
			return nil, errors.New("must close each {{ with }}, such as {{principal.subject}}")
		}
		expression = strings.TrimSpace(expression)
		if !expressionForm.MatchString(expression) {
			return nil, fmt.Errorf("has an unknown expression; known are %s", "{{principal.subject}}, {{principal.issuer}}, {{principal.groups}} and {{principal.claims.<path>}}")
		}
		parts = append(parts, TemplatePart{Expression: expression})
		value = after
	}
}
