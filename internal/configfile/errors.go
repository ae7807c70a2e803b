package configfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxErrors bounds how many errors of one configuration are reported.
const maxErrors = 100

// Pos is a position in a file; lines and columns count from 1, columns in characters.
type Pos struct{ Line, Col int }

// String is line:col.
func (p Pos) String() string { return fmt.Sprintf("%d:%d", p.Line, p.Col) }

// Error is one error in a file. Path names the key as the file spells it; it is empty for errors
// that concern no key. Line and Col are 0 for errors that concern no place.
type Error struct {
	File      string
	Line, Col int
	Path, Msg string
}

// Error is file:line:col: path: message, without what is not known.
func (e *Error) Error() string {
	text := e.File
	if e.Line > 0 {
		text += fmt.Sprintf(":%d:%d", e.Line, e.Col)
	}
	if e.Path != "" {
		text += ": " + e.Path
	}
	return text + ": " + e.Msg
}

// Warning is about something that was accepted; it has the form of an [Error].
type Warning Error

// String is file:line:col: path: message, without what is not known.
func (w Warning) String() string { return (*Error)(&w).Error() }

// CompareWarnings orders warnings by position.
func CompareWarnings(a, b Warning) int { return compare((*Error)(&a), (*Error)(&b)) }

// Errors are all errors of a configuration. As an error it is never empty.
type Errors []*Error

// Error has one line for each error.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets [errors.As] find an *Error.
func (es Errors) Unwrap() []error {
	errs := make([]error, len(es))
	for i, e := range es {
		errs[i] = e
	}
	return errs
}

// Sorted orders errors by position and bounds their number. An error that a merge repeats is
// reported once.
func (es Errors) Sorted() Errors {
	slices.SortStableFunc(es, compare)
	es = slices.CompactFunc(es, func(a, b *Error) bool { return *a == *b })
	if more := len(es) - maxErrors; more > 0 {
		last := *es[maxErrors]
		last.Path, last.Msg = "", fmt.Sprintf("from here on %d more errors", more)
		es = append(es[:maxErrors:maxErrors], &last)
	}
	return es
}

func compare(a, b *Error) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
}
