package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

const (
	toolName     = "text" // the only tool of the upstream
	answerLength = 1024   // bytes of text in its result

	legacyRevision = "2025-11-25"
	modernRevision = "2026-07-28"

	sessionHeader  = "Mcp-Session-Id"
	maxRequestBody = 1 << 20
)

// padding follows the nonce in an answer's text. It needs no JSON escapes, so
// that every encoder writes the same bytes.
var padding = strings.Repeat("abcdefghijklmnopqrstuvwxyz012345", answerLength/32)

// answerText returns the text of the result of a call with this nonce.
func answerText(nonce string) string { return nonce + padding[len(nonce):] }

// rawUpstream is an MCP server with one tool. The tool's text begins with the
// nonce of the call. The server serves both eras with as little work as possible:
// it decodes the request once and writes a result made of strings.
type rawUpstream struct{}

// rawRequest has the members of a request that the upstream reads.
type rawRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		ProtocolVersion string `json:"protocolVersion"`
		Name            string `json:"name"`
		Arguments       struct {
			Nonce string `json:"nonce"`
		} `json:"arguments"`
	} `json:"params"`
}

const (
	// modernMembers are the members that revision 2026-07-28 adds to a complete
	// result. Older clients ignore them.
	modernMembers = `"resultType":"complete","ttlMs":60000,"cacheScope":"public",`

	toolList = `"tools":[{"name":"` + toolName + `","description":"a text of 1 KiB that begins with the nonce",` +
		`"inputSchema":{"type":"object","properties":{"nonce":{"type":"string"}},"required":["nonce"]}}]`
)

func (rawUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
	case http.MethodDelete: // ends a session; the upstream stores none
		w.WriteHeader(http.StatusNoContent)
		return
	default: // the upstream offers no stream
		w.Header().Set("Allow", "POST, DELETE")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequestBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var req rawRequest
	if err := json.Unmarshal(body, &req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if req.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	switch req.Method {
	case "tools/call":
		nonce := req.Params.Arguments.Nonce
		if req.Params.Name != toolName || !plainNonce(nonce) {
			reply(w, req.ID, `"error":{"code":-32602,"message":"call the tool text with a nonce of letters and digits"}`)
			return
		}
		complete := ""
		if r.Header.Get("Mcp-Method") != "" {
			complete = `"resultType":"complete",`
		}
		reply(w, req.ID, `"result":{`+complete+`"content":[{"type":"text","text":"`+answerText(nonce)+`"}]}`)
	case "initialize":
		w.Header().Set(sessionHeader, rand.Text())
		version := req.Params.ProtocolVersion
		if !plainNonce(strings.ReplaceAll(version, "-", "")) {
			version = legacyRevision
		}
		reply(w, req.ID, fmt.Sprintf(`"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}`, version))
	case "server/discover":
		reply(w, req.ID, `"result":{`+modernMembers+`"supportedVersions":["`+modernRevision+`"],"capabilities":{"tools":{}},`+
			`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"bench","version":"1"}}}`)
	case "tools/list":
		reply(w, req.ID, `"result":{`+modernMembers+toolList+`}`)
	case "ping":
		reply(w, req.ID, `"result":{}`)
	default:
		reply(w, req.ID, `"error":{"code":-32601,"message":"method not found"}`)
	}
}

// reply writes a response. id is copied from the request; member is the result or
// the error, with its key.
func reply(w http.ResponseWriter, id json.RawMessage, member string) {
	msg := `{"jsonrpc":"2.0","id":` + string(id) + `,` + member + `}`
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(msg)))
	io.WriteString(w, msg) // an error means that the client is gone
}

// plainNonce reports whether s is a nonce that needs no JSON escapes.
func plainNonce(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}
