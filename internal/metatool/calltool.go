package metatool

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"mcpgateway/internal/call"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

// maxNamed bounds how much of a name or member an answer repeats.
const maxNamed = 128

// callTool calls the tool that the arguments name, if it has the effect.
func (in *invocation) callTool(ctx context.Context, want effect) (call.Result, error) {
	name, arguments, wrong := readCall(in.args, in.target.Public)
	if wrong != "" {
		return mistake("%s", wrong), nil
	}
	target, known := in.view.Resolve(call.Tool, name)
	if known && target.Part.Own() && isMeta(name) { // an upstream may have a tool with the name of one that the profile lacks
		return mistake("%s is no tool to call with %s: call it directly.", name, in.target.Public), nil
	}
	if known && want != anyEffect {
		if is := effectOf(target.Entry.Ordinary().Raw); is != want {
			return mistake("%s was not called: by its annotations it %s. Call it with %s.", name, is.words(), is.callerOf()), nil
		}
	}
	res, err := in.run(ctx, name, arguments)
	if rpc, ok := errors.AsType[*wire.Error](err); ok && !known && rpc.Code == wire.CodeInvalidParams {
		return mistake("There is no tool %q.%s", plaintext.Clip(name, maxNamed), in.suggestion(name)), nil
	}
	if err == nil && known {
		in.tools.memory.remember(in.call.Principal.Key(), name)
	}
	return res, err
}

// run runs a call of another tool inside of this one. It passes on the progress token, the wish
// for a task, and the rest of _meta.
func (in *invocation) run(ctx context.Context, name string, arguments wire.Raw) (call.Result, error) {
	params := append(wire.AppendString(wire.Raw(`{"name":`), name), `,"arguments":`...)
	params = append(append(params, arguments...), '}')
	own := wire.ValueOf(in.call.Params)
	for _, member := range []string{"_meta", "task"} {
		if v := own.Get(member); v.Exists() {
			params = wire.SetMember(params, member, v.Raw())
		}
	}
	c := in.call.With(params)
	c.Method = wire.MethodToolsCall
	return in.inner(ctx, c)
}

// suggestion says what to do about a name that the view does not have.
func (in *invocation) suggestion(name string) string {
	if near := in.near(name); len(near) > 0 {
		return " Did you mean " + strings.Join(near, " or ") + "? Otherwise find the tool with " + SearchTools + "."
	}
	return " Find the names of tools with " + SearchTools + "."
}

// near returns names of the view that are like a name which it does not have.
func (in *invocation) near(name string) []string {
	return in.view.SimilarNames(call.Tool, name)
}

// readCall reads the arguments of a tool that calls another. It accepts what models often write
// in place of {"name": …, "arguments": {…}}, if that has only one meaning: arguments as the text of
// an object, and the whole inside of another `arguments`. Anything else is wrong in words that a
// model can correct itself by.
func readCall(args wire.Value, tool string) (name string, arguments wire.Raw, wrong string) {
	given, ok := objectOf(args.Get("arguments"))
	if outer := args.Get("name"); !outer.Exists() && ok && given.Get("name").Kind() == '"' && onlyCall(given) {
		args = given
		given, ok = objectOf(args.Get("arguments"))
	}
	switch n := args.Get("name"); {
	case !n.Exists():
		return "", nil, fmt.Sprintf("%s needs `name`: the name of the tool to call, as %s returned it. Write {\"name\": \"…\", \"arguments\": {…}}.", tool, SearchTools)
	case n.Kind() != '"' || n.Str() == "":
		return "", nil, fmt.Sprintf("`name` must be the name of the tool to call, a string as %s returned it.", SearchTools)
	default:
		name = n.Str()
	}
	if !ok {
		return "", nil, "`arguments` must be an object with the arguments of the tool by the names of its parameters: {\"name\": " +
			string(wire.String(plaintext.Clip(name, maxNamed))) + ", \"arguments\": {…}}."
	}
	if others := membersBeside(args, "name", "arguments"); len(others) > 0 {
		return "", nil, fmt.Sprintf("%s takes `name` and `arguments` only. Put %s into `arguments`: {\"name\": %s, \"arguments\": {%s: …}}.",
			tool, strings.Join(quoted(others, "`"), ", "), wire.String(plaintext.Clip(name, maxNamed)), strings.Join(quoted(others, `"`), ": …, "))
	}
	if given.Exists() {
		return name, given.Raw(), ""
	}
	return name, wire.Raw(`{}`), ""
}

// onlyCall reports whether an object has no members beside those of a call.
func onlyCall(v wire.Value) bool { return len(membersBeside(v, "name", "arguments")) == 0 }

// objectOf returns an object that is given as one or as its text. An absent value and null count
// as an absent object.
func objectOf(v wire.Value) (wire.Value, bool) {
	switch v.Kind() {
	case '{':
		return v, true
	case '"':
		text := []byte(v.Str())
		if wire.Check(text, wire.Limits{}, wire.Strict) != nil {
			return wire.Value{}, false
		}
		parsed := wire.ValueOf(text)
		return parsed, parsed.Kind() == '{'
	default:
		return wire.Value{}, !v.Exists() || v.Kind() == 'n'
	}
}

// maxMembers bounds how many members an answer names.
const maxMembers = 8

// membersBeside returns the names of an object's members beside the known ones.
func membersBeside(v wire.Value, known ...string) []string {
	var out []string
members:
	for m := range v.Members() {
		for _, k := range known {
			if m.Is(k) {
				continue members
			}
		}
		if len(out) < maxMembers {
			out = append(out, plaintext.Clip(m.Key.Str(), maxNamed))
		}
	}
	return out
}

func quoted(names []string, quote string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = quote + n + quote
	}
	return out
}
