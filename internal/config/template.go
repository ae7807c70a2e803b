package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Headers are HTTP headers by name. A value may be a template, see [ParseTemplate].
type Headers map[string]Secret

// TemplatePart is a piece of a template: text as it is, or an expression about the
// principal who calls.
type TemplatePart struct {
	Text       string
	Expression string // "" for text
}

const openTemplate, closeTemplate = "{{", "}}"

var expressionForm = regexp.MustCompile(`^principal\.(subject|issuer|groups|claims\.[^{}\s\x00-\x1f\x7f]+)$`)

// ParseTemplate takes the value of a header apart. It is a template if it has {{
// somewhere; then what stands between {{ and }} is one of principal.subject,
// principal.issuer, principal.groups and principal.claims.<path>. The error does not
// show the value, which may be secret.
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
			return nil, errors.New("must close with }} what begins with {{, such as {{principal.subject}}")
		}
		expression = strings.TrimSpace(expression)
		if !expressionForm.MatchString(expression) {
			return nil, fmt.Errorf("has an expression that is not known; known are %s", "{{principal.subject}}, {{principal.issuer}}, {{principal.groups}} and {{principal.claims.<path>}}")
		}
		parts = append(parts, TemplatePart{Expression: expression})
		value = after
	}
}
