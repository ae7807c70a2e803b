package conform

import (
	"fmt"
	"strings"

	"mcpgateway/internal/content"
	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/wire"
)

var promptRules, messageRules []rule

func init() {
	promptRules = []rule{
		{name: "description", section: secPrompt, check: checkString(secPrompt)},
		{name: "messages", required: true, section: secPrompt, check: promptMessages},
		metaRule,
	}
	messageRules = []rule{
		{
			name: "role", required: true, section: secMessages, check: checkRole,
			defaultValue: func(*walk, wire.Value) (wire.Raw, string) {
				return wire.Raw(`"user"`), "is missing; it must be user or assistant"
			},
		},
		{name: "content", required: true, section: secMessages, check: promptContent, aliases: []string{"text"}},
	}
}

// checkPrompt checks a prompt (GetPromptResult).
func (w *walk) checkPrompt(result wire.Raw) wire.Raw {
	root := w.root(result)
	if at := root.Get("messages"); at.Kind() == '{' {
		w.reportMember("messages", WrongType, secPrompt, true, "must be an array of messages, not an object")
		e := wire.NewEdit(result)
		e.Replace(at, append(append(wire.Raw{'['}, at.Raw()...), ']'))
		return w.recheck(e.Bytes())
	}
	return w.checkObject(root, promptRules)
}

func promptMessages(w *walk, v wire.Value) wire.Raw {
	switch v.Kind() {
	case '[':
		return w.checkArray(v, checkPromptMessage)
	case '"':
		w.report(WrongType, secPrompt, true, "must be an array of messages, not a string")
		return append(append(wire.Raw{'['}, checkPromptMessage(w, v)...), ']')
	default:
		w.report(WrongType, secPrompt, false, "must be an array of messages, not "+v.KindName())
		w.unrepaired++
		return nil
	}
}

// checkPromptMessage checks one message. It returns one message for each block if the message
// has several.
func checkPromptMessage(w *walk, v wire.Value) wire.Raw {
	switch v.Kind() {
	case '{':
	case '"':
		w.report(WrongType, secMessages, true, "must be a message with role and content, not a string")
		return promptMessageOf(wire.Raw(`"user"`), content.TextBlock(v.Str()))
	default:
		w.report(WrongType, secMessages, true, "must be a message with role and content, not "+v.KindName())
		return promptMessageOf(wire.Raw(`"user"`), content.TextBlock(string(v.Raw())))
	}
	if blocks := v.Get("content"); blocks.Kind() == '[' {
		return w.splitMessage(v, blocks)
	}
	fix, ok := w.checkObjectOr(v, messageRules)
	if !ok {
		return promptMessageOf(wire.Raw(`"user"`), content.TextBlock(string(v.Raw())))
	}
	return fix
}

// splitMessage makes a message of each block.
func (w *walk) splitMessage(v, blocks wire.Value) wire.Raw {
	w.reportMember("content", WrongType, secMessages, true, "must be one block, not an array; every block needs a message of its own")
	if !w.repair {
		return nil
	}
	role := wire.Raw(`null`)
	if at := v.Get("role"); at.Exists() && at.Kind() != 'n' {
		w.push("role", 0)
		role = checkRole(w, at)
		w.pop()
		if role == nil {
			role = at.Raw()
		}
	}
	out := removed
	for el := range blocks.Elements() {
		one := promptMessageOf(role, el.Raw())
		if el.Kind() == '[' {
			one = promptMessageOf(role, content.TextBlock(string(el.Raw())))
		}
		if fix := checkPromptMessage(w, wire.ValueOf(one)); fix != nil {
			one = fix
		}
		if len(out) > 0 {
			out = append(out, ',')
		}
		out = append(out, one...)
	}
	return out
}

// promptMessageOf returns a message of a prompt.
func promptMessageOf(role, block wire.Raw) wire.Raw {
	return wire.SetMember(wire.SetMember(wire.Raw(`{}`), "role", role), "content", block)
}

// checkRole checks a role. Prompts are written by users, so other roles become user.
func checkRole(w *walk, v wire.Value) wire.Raw {
	if isRole(v) {
		return nil
	}
	w.report(InvalidRole, secMessages, true, fmt.Sprintf("%q is not a role; it must be user or assistant", plaintext.Clip(v.Str(), 32)))
	switch strings.ToLower(v.Str()) {
	case "assistant", "model", "ai":
		return wire.Raw(`"assistant"`)
	}
	return wire.Raw(`"user"`)
}

func promptContent(w *walk, v wire.Value) wire.Raw {
	if v.Kind() == '"' {
		w.report(WrongType, secMessages, true, "must be a block such as {\"type\":\"text\",\"text\":…}, not a string")
		return content.TextBlock(v.Str())
	}
	return checkBlock(w, v)
}
