package metatool

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"mcpgateway/internal/call"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// progress tells the client of a script about its calls, if the client wants to know. Half a
// step is for the beginning of a call and half for its end, so that the number grows.
type progress struct {
	to    call.BackChannel
	token wire.Raw // nil if the client does not want to know

	mu      sync.Mutex
	begun   []string // names of tools, by the number of the call
	halves  int      // beginnings and ends
	between int      // notifications since the last of these
}

// progressPrefix begins the progress tokens of inner calls.
const progressPrefix = "script-"

// maxBetween bounds the notifications of inner calls between two of our own.
const maxBetween = 400

func newProgress(c *call.Call) *progress {
	return &progress{to: c.Back, token: wire.ValueOf(c.Params).Get("_meta", wire.MetaProgressToken).Raw()}
}

// begin tells that a call begins. It returns the progress token of that call, "" for none, and a
// function that tells that the call has ended.
func (p *progress) begin(tool string) (token string, end func(ok bool)) {
	if p.token == nil {
		return "", func(bool) {}
	}
	name := plaintext.Clip(tool, maxNamed)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = append(p.begun, name)
	token = progressPrefix + strconv.Itoa(len(p.begun)-1)
	p.step(name)
	return token, func(ok bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if ok {
			p.step(name + ": done")
		} else {
			p.step(name + ": failed")
		}
	}
}

// step tells about a beginning or an end. The caller holds mu, so that the numbers arrive in order.
func (p *progress) step(message string) {
	p.halves++
	p.between = 0
	p.notify(message)
}

// inner tells about the progress of an inner call.
func (p *progress) inner(params wire.Value) {
	text, ok := strings.CutPrefix(params.Get(wire.MetaProgressToken).Str(), progressPrefix)
	n, err := strconv.Atoi(text)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !ok || err != nil || n < 0 || n >= len(p.begun) || p.between >= maxBetween {
		return
	}
	message := p.begun[n] + ": "
	if m := params.Get("message").Str(); m != "" {
		message += m
	} else {
		message += string(params.Get("progress").Raw())
		if total := params.Get("total"); total.Exists() {
			message += " of " + string(total.Raw())
		}
	}
	p.between++
	p.notify(message)
}

func (p *progress) notify(message string) {
	params := append(wire.Raw(`{"progressToken":`), p.token...)
	params = fmt.Appendf(params, `,"progress":%s,"message":`, strconv.FormatFloat(float64(p.halves)/2+float64(p.between)/1000, 'f', -1, 64))
	p.to.Notify(wire.NoteProgress, append(wire.AppendString(params, message), '}'))
}
