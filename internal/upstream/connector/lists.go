package connector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/upstream/protocol"
	"mcpgateway/internal/wire"
)

// Bounds of one list. A server that exceeds one is broken or hostile, and gathering its
// list fails.
const (
	maxPages     = 1000
	maxItems     = 100_000
	maxListBytes = 64 << 20
)

// kind is one of the lists that a server has.
type kind uint8

const (
	kindTools kind = iota
	kindPrompts
	kindResources
	kindTemplates
	numKinds
)

// listings are the methods that list each kind.
var listings = [numKinds]*wire.Method{
	kindTools:     wire.MethodOf(wire.MethodToolsList),
	kindPrompts:   wire.MethodOf(wire.MethodPromptsList),
	kindResources: wire.MethodOf(wire.MethodResourcesList),
	kindTemplates: wire.MethodOf(wire.MethodTemplatesList),
}

// items returns the list of the kind in the catalog.
func (k kind) items(c *Catalog) *[]wire.Raw {
	switch k {
	case kindTools:
		return &c.Tools
	case kindPrompts:
		return &c.Prompts
	case kindResources:
		return &c.Resources
	default:
		return &c.Templates
	}
}

// failure returns the place of the kind's failure.
func (k kind) failure(f *FailedLists) *FailedList {
	return [numKinds]*FailedList{kindTools: &f.Tools, kindPrompts: &f.Prompts, kindResources: &f.Resources, kindTemplates: &f.Templates}[k]
}

// kinds is a set of lists.
type kinds uint8

func only(k kind) kinds { return 1 << k }

func (ks kinds) has(k kind) bool { return ks&only(k) != 0 }

// kindsUnder returns the kinds that a capability announces: those whose lists change
// together.
func kindsUnder(capability string) kinds {
	var ks kinds
	for k, m := range listings {
		if m.Capability == capability {
			ks |= only(kind(k))
		}
	}
	return ks
}

// listing is one list with all pages.
type listing struct {
	items []wire.Raw
	ttl   time.Duration // how long the server calls the first page fresh; 0: it did not say
}

// list follows all pages of a list, each of which must come within timeout. An
// unknown method is an empty list: some servers declare a capability of which
// they have a part only. The error is for users.
func list(ctx context.Context, conn protocol.Conn, k kind, timeout time.Duration) (listing, error) {
	var out listing
	seen := map[string]bool{} // cursors
	size := 0
	var params wire.Raw
	for page := 0; page < maxPages; page++ {
		result, err := request(ctx, conn, &call.Call{Method: listings[k].Name, Params: params, Back: protocol.NoClient{}}, timeout)
		if refusal, ok := err.(*wire.Error); ok && refusal.Code == wire.CodeMethodNotFound && page == 0 {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		root := wire.ValueOf(result)
		array := root.Get(listings[k].ListMember)
		if array.Kind() != '[' {
			return out, fmt.Errorf("the result has no array %q", listings[k].ListMember)
		}
		for item := range array.Elements() {
			out.items = append(out.items, item.Raw())
		}
		if size += len(result); size > maxListBytes || len(out.items) > maxItems {
			return out, fmt.Errorf("more than %d items or %d MiB", maxItems, maxListBytes>>20)
		}
		if ms, ok := root.Get("ttlMs").Int(); ok && page == 0 && ms > 0 {
			out.ttl = time.Duration(min(ms, maxTTL.Milliseconds())) * time.Millisecond
		}
		cursor := root.Get("nextCursor")
		// An empty cursor is taken for the end: servers that write one mean it
		// so, and asking with it would begin anew.
		if cursor.Kind() != '"' || cursor.IsString("") {
			return out, nil
		}
		text := string(cursor.Raw())
		if seen[text] {
			return out, errors.New("the pages go round in circles: a cursor came twice")
		}
		seen[text] = true
		params = wire.SetMember(wire.Raw(`{}`), "cursor", cursor.Raw())
	}
	return out, fmt.Errorf("more than %d pages", maxPages)
}

// maxTTL bounds the freshness that a server can claim for its lists.
const maxTTL = 24 * time.Hour

// request sends one call of the gateway itself and waits for the answer, at most timeout.
func request(ctx context.Context, conn protocol.Conn, c *call.Call, timeout time.Duration) (wire.Raw, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s", timeout))
	defer cancel()
	result, err := conn.Call(ctx, c)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return result.Raw, err
}
