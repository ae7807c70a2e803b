package demo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxCompletions is the most values that one answer to completion/complete may
// carry (spec 2025-11-25, server/utilities/completion).
const maxCompletions = 100

// invalidParams makes the JSON-RPC error for a request that names or holds
// something wrong.
func invalidParams(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

// completion answers with those candidates that begin with prefix, in their
// order, at most maxCompletions of them. It takes candidates over.
func completion(candidates []string, prefix string) *mcp.CompleteResult {
	values := slices.DeleteFunc(candidates, func(s string) bool { return !strings.HasPrefix(s, prefix) })
	details := mcp.CompletionResultDetails{Total: len(values), Values: values}
	if len(values) > maxCompletions {
		details.Values, details.HasMore = values[:maxCompletions], true
	}
	if details.Values == nil {
		details.Values = []string{} // the member is required, null is not an array
	}
	return &mcp.CompleteResult{Completion: details}
}
