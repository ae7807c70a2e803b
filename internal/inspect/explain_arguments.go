package inspect

import (
	"errors"
	"fmt"

	"mcpgateway/internal/call"
	"mcpgateway/internal/catalog"
	"mcpgateway/internal/toolschema"
)

// ArgumentsCheck is what the gateway makes of the arguments of a call, "" if it does not check them
// or if there are none to check.
type ArgumentsCheck string

// The results of a check of arguments.
const (
	ArgumentsValid     ArgumentsCheck = "valid"
	ArgumentsInvalid   ArgumentsCheck = "invalid"   // the gateway does not make the call
	ArgumentsUnchecked ArgumentsCheck = "unchecked" // the schema is not known, or costs too much
)

// checkArguments checks the arguments of a question as a call would have them checked.
func (e *Explanation) checkArguments(q *Question, t catalog.Target) {
	if t.Kind != call.Tool || q.Arguments == nil || t.Part == nil || !t.Part.Rules().ValidateInput {
		return
	}
	if t.Entry == nil || t.Entry.Input == nil {
		e.Arguments = ArgumentsUnchecked
		return
	}
	err := t.Entry.Input.Validate(q.Arguments)
	mismatch, ok := errors.AsType[*toolschema.ValidationError](err)
	switch {
	case ok:
		e.Arguments = ArgumentsInvalid
		for _, v := range mismatch.Violations {
			e.ArgumentErrors = append(e.ArgumentErrors, v.Path+" "+v.Message)
		}
		if mismatch.More > 0 {
			e.ArgumentErrors = append(e.ArgumentErrors, fmt.Sprintf("and %d more", mismatch.More))
		}
	case err != nil:
		e.Arguments = ArgumentsUnchecked
	default:
		e.Arguments = ArgumentsValid
	}
}
