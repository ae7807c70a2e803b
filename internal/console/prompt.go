package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"mcpgateway/internal/wire"
)

// Prompter asks a person. One goroutine at a time may use it; another one reads its input until the
// input ends.
type Prompter struct {
	in    io.Reader
	out   io.Writer
	style Style
	lines chan string // nil before the first question; closed at the end of the input
}

// NewPrompter returns a prompter that writes questions to out and reads answers from in, one on each
// line.
func NewPrompter(in io.Reader, out io.Writer, s Style) *Prompter {
	return &Prompter{in: in, out: out, style: s}
}

// maxAnswer bounds a line of input.
const maxAnswer = 1 << 20

// errEnded is the error at the end of the input.
var errEnded = errors.New("the input has ended")

// line asks for one line. The error is errEnded or that of ctx.
func (p *Prompter) line(ctx context.Context, question string) (string, error) {
	if p.lines == nil {
		p.lines = make(chan string)
		go p.read(p.lines)
	}
	p.say("%s ", question)
	select {
	case text, ok := <-p.lines:
		if !ok {
			p.say("\n")
			return "", errEnded
		}
		return strings.TrimRight(text, "\r"), nil
	case <-ctx.Done():
		ended := "\n"
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			ended = "\nThe time to answer has ended.\n"
		}
		p.say("%s", ended)
		return "", ctx.Err()
	}
}

func (p *Prompter) read(lines chan<- string) {
	defer close(lines)
	s := bufio.NewScanner(p.in)
	s.Buffer(nil, maxAnswer)
	for s.Scan() {
		lines <- s.Text()
	}
}

func (p *Prompter) say(format string, args ...any) {
	fmt.Fprintf(p.out, format, args...) // an error cannot be shown either
}

// Confirm asks a question until it is answered with yes or no. An empty answer and the end of the input mean no.
func (p *Prompter) Confirm(ctx context.Context, question string) (bool, error) {
	for {
		text, err := p.line(ctx, question+" [y/N]")
		if errors.Is(err, errEnded) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		switch strings.ToLower(strings.TrimSpace(text)) {
		case "y", "yes":
			return true, nil
		case "n", "no", "":
			return false, nil
		}
		p.say("  %s\n", p.style.Warn("answer with y or n"))
	}
}

// choice is the decision of a person.
type choice byte

const (
	accept  choice = 'y'
	decline choice = 'n'
	cancel  choice = 'c'
)

// choose asks for a decision; the end of the input means cancel.
func (p *Prompter) choose(ctx context.Context, question string) (choice, error) {
	for {
		text, err := p.line(ctx, question+" [y]es, [n]o, [c]ancel:")
		if errors.Is(err, errEnded) {
			return cancel, nil
		}
		if err != nil {
			return 0, err
		}
		switch strings.ToLower(strings.TrimSpace(text)) {
		case "y", "yes":
			return accept, nil
		case "n", "no":
			return decline, nil
		case "c", "cancel":
			return cancel, nil
		}
		p.say("  %s\n", p.style.Warn("answer with y, n or c"))
	}
}

// The answers to an elicitation without content (2025-11-25, client/elicitation,
// "Response Actions").
var (
	declined  = wire.Raw(`{"action":"decline"}`)
	cancelled = wire.Raw(`{"action":"cancel"}`)
)

// Elicit asks the person the question of a server: a form or a URL. It returns the result of the
// elicitation; the error is that of ctx.
func (p *Prompter) Elicit(ctx context.Context, params wire.Raw) (wire.Raw, error) {
	root := wire.ValueOf(params)
	p.say("\n%s\n", p.style.Bold(Clean(root.Get("message").Str())))
	if root.Get("mode").IsString("url") {
		p.say("\n  %s\n\nOpen this address only if you trust the server.\n", Line(root.Get("url").Str()))
		got, err := p.choose(ctx, "Opened?")
		return actionOf(got), err
	}
	fields := fieldsOf(root.Get("requestedSchema"))
	question := "Answer?"
	if len(fields) == 0 {
		question = "Accept?"
	}
	got, err := p.choose(ctx, question)
	if err != nil || got != accept {
		return actionOf(got), err
	}
	content := wire.Raw(`{}`)
	for _, f := range fields {
		value, err := p.fill(ctx, f)
		switch {
		case errors.Is(err, errEnded):
			return cancelled, nil
		case err != nil:
			return nil, err
		case value != nil:
			content = wire.SetMember(content, f.name, value)
		}
	}
	return wire.SetMember(wire.Raw(`{"action":"accept"}`), "content", content), nil
}

func actionOf(c choice) wire.Raw {
	switch c {
	case accept:
		return wire.Raw(`{"action":"accept"}`)
	case decline:
		return declined
	}
	return cancelled
}

// fill asks for one field until the answer is valid. It returns nil for a field without a value.
func (p *Prompter) fill(ctx context.Context, f *field) (wire.Raw, error) {
	p.say("\n%s", p.style.Bold(f.label()))
	if about := f.about(); about != "" {
		p.say("  %s", p.style.Dim(about))
	}
	p.say("\n")
	for i, o := range f.options {
		p.say("  %d) %s\n", i+1, Line(o.title))
	}
	for {
		text, err := p.line(ctx, "  "+f.hint())
		if err != nil {
			return nil, err
		}
		value, err := f.parse(strings.TrimSpace(text))
		if err == nil {
			return value, nil
		}
		p.say("  %s\n", p.style.Warn(err.Error()))
	}
}
