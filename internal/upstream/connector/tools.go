package connector

import (
	"context"

	"go.uber.org/zap"

	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/upstream/diagnose"
	"mcpgateway/internal/wire"
)

// toolFacts are the facts about tools that a connector needs, by native names. It is
// immutable.
type toolFacts struct {
	// repeatable tools may be called again if it is unknown whether a call was executed.
	repeatable map[string]bool
	// headers are the parameters that are sent in headers too.
	headers map[string][]wire.HeaderParam
}

func readTools(tools []wire.Raw, headers bool) *toolFacts {
	facts := &toolFacts{repeatable: map[string]bool{}, headers: map[string][]wire.HeaderParam{}}
	for _, t := range tools {
		v := wire.ValueOf(t)
		name := v.Get("name").Str()
		hints := v.Get("annotations")
		if hints.Get("readOnlyHint").Bool() || hints.Get("idempotentHint").Bool() {
			facts.repeatable[name] = true
		}
		if !headers {
			continue
		}
		if params, err := wire.HeaderParams(v.Get("inputSchema").Raw()); err == nil && len(params) > 0 {
			facts.headers[name] = params
		}
	}
	return facts
}

// usable returns the tools without those whose annotations of headers are
// invalid; such tools must be left out where headers are sent (2026-07-28,
// basic/transports/streamable-http, "Custom Headers from Tool Parameters").
func (t *catalogRefresher) usable(tools []wire.Raw) []wire.Raw {
	out := tools[:0]
	var first zap.Field
	for _, tool := range tools {
		v := wire.ValueOf(tool)
		_, err := wire.HeaderParams(v.Get("inputSchema").Raw())
		if err == nil {
			out = append(out, tool)
		} else if first.Key == "" {
			first = zap.String("first", plaintext.Truncate(v.Get("name").Str(), diagnose.MaxExcerpt)+": "+t.c.o.reason(err.Error()))
		}
	}
	was := t.useless
	if t.useless = len(tools) - len(out); t.useless > 0 && t.useless != was {
		t.c.o.Logger.Warn("tools are left out: their header annotations are invalid", zap.Int("tools", t.useless), first)
	}
	return out
}

// HeaderParams returns the parameters of a tool that calls carry in headers too, by the
// native name of the tool.
func (c *Connector) HeaderParams(tool string) []wire.HeaderParam { return c.tools.Load().headers[tool] }

// Relist gathers the list of tools again, because the server refused the headers of a
// call. It returns when that has ended, with or without success, or with the error of ctx.
func (c *Connector) Relist(ctx context.Context) error {
	select {
	case <-c.requestLists(only(kindTools)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
