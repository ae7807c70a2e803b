package wire

import (
	"fmt"
	"strconv"
)

// Error codes of JSON-RPC and of MCP.
const (
	CodeParse             = -32700
	CodeInvalidRequest    = -32600
	CodeMethodNotFound    = -32601
	CodeInvalidParams     = -32602
	CodeInternal          = -32603
	CodeResourceNotFound  = -32002 // legacy revisions only; modern ones use CodeInvalidParams
	CodeURLElicitation    = -32042 // 2025-11-25 only
	CodeHeaderMismatch    = -32020
	CodeMissingCapability = -32021
	CodeUnsupportedRev    = -32022
)

// Error is a JSON-RPC error object. An error from a peer keeps its bytes in Raw and is
// forwarded as these bytes; an error of the gateway has no Raw.
type Error struct {
	Code    int64
	Message string
	Data    Raw // nil when absent
	Raw     Raw // the whole object as the peer sent it, nil for errors of the gateway
	// Extra holds unknown members of the envelope of the error, see Message.Extra.
	Extra string
	// Detail says more than Message, for the log and the status. It may name addresses and files,
	// and is never sent.
	Detail string
	// Explain returns Detail, or the reason in Data if Detail is empty, with what a server said about the request, for the
	// log and the status. hide removes arguments of the request from what the server said. It is nil if Detail or Data say all.
	Explain func(hide func(said string) string) string
}

// Error returns the code and the message.
func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// Errorf makes an error object without data.
func Errorf(code int64, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithData returns a copy of e that carries data, which must be valid JSON.
func (e *Error) WithData(data Raw) *Error {
	c := *e
	c.Data, c.Raw = data, nil
	return &c
}

// Append appends the error object as JSON.
func (e *Error) Append(dst []byte) []byte {
	if e.Raw != nil {
		return append(dst, e.Raw...)
	}
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, e.Code, 10)
	dst = append(dst, `,"message":`...)
	dst = AppendString(dst, e.Message)
	if e.Data != nil {
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Data...)
	}
	return append(dst, '}')
}

// IsModernCode reports whether only a peer that speaks a modern revision sends an error with
// this code (2026-07-28, basic/versioning,
// "Backward Compatibility").
func IsModernCode(code int64) bool {
	return code == CodeHeaderMismatch || code == CodeMissingCapability || code == CodeUnsupportedRev
}
