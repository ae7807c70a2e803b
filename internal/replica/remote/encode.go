package remote

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

var errMalformed = errors.New("a message of another replica is malformed")

// join returns a header as JSON with its length, followed by a body as it is.
func join(header any, body []byte) []byte {
	text, err := json.Marshal(header)
	if err != nil {
		panic(err) // headers have no types that can fail
	}
	out := make([]byte, 0, binary.MaxVarintLen32+len(text)+len(body))
	out = binary.AppendUvarint(out, uint64(len(text)))
	return append(append(out, text...), body...)
}

// split is the reverse of join.
func split(data []byte, header any) (body []byte, err error) {
	n, size := binary.Uvarint(data)
	if size <= 0 || uint64(len(data)-size) < n {
		return nil, errMalformed
	}
	text, body := data[size:size+int(n)], data[size+int(n):]
	if json.Unmarshal(text, header) != nil {
		return nil, errMalformed
	}
	return body, nil
}

// raw is raw JSON in a header. Unlike a json.RawMessage its bytes are kept as they are.
type raw = []byte

// callHeader is all of a call but its params.
type callHeader struct {
	To            string             `json:"to,omitempty"` // what the call is for, by its kind
	ID            string             `json:"id"`
	Method        string             `json:"method"`
	HasParams     bool               `json:"hasParams,omitempty"`
	Remote        string             `json:"remote,omitempty"`
	By            string             `json:"by,omitempty"`
	WithoutGrants bool               `json:"withoutGrants,omitempty"`
	ShareKey      uint64             `json:"share"`
	LogLevel      wire.Level         `json:"level,omitempty"`
	LevelUnset    bool               `json:"levelUnset,omitempty"`
	Session       string             `json:"session,omitempty"`
	TakesRounds   bool               `json:"rounds,omitempty"`
	Depth         uint8              `json:"depth,omitempty"`
	Trace         *call.TraceContext `json:"trace,omitempty"`
	Principal     principalHeader    `json:"principal"`
	Client        clientHeader       `json:"client"`
}

type principalHeader struct {
	Profile    string    `json:"profile,omitempty"`
	Subject    string    `json:"sub"`
	Issuer     string    `json:"iss,omitempty"`
	Groups     []string  `json:"groups,omitempty"`
	Scopes     []string  `json:"scopes,omitempty"`
	AuthMethod string    `json:"auth"`
	KeyID      string    `json:"key,omitempty"`
	Claims     raw       `json:"claims,omitempty"`
	Expires    time.Time `json:"expires"`
	Token      string    `json:"token,omitempty"`
}

type clientHeader struct {
	Key          string        `json:"key"`
	Sessionless  bool          `json:"sessionless,omitempty"`
	Revision     wire.Revision `json:"revision"`
	Info         raw           `json:"info,omitempty"`
	Capabilities raw           `json:"capabilities,omitempty"`
}

func encodeCall(to string, c *call.Call) []byte {
	p, client := c.Principal, c.Client
	return join(callHeader{
		To: to, ID: c.ID, Method: c.Method, HasParams: c.Params != nil, Remote: c.Remote, By: c.By, WithoutGrants: c.WithoutGrants, ShareKey: c.ShareKey, LogLevel: c.LogLevel, LevelUnset: c.LevelUnset,
		Session: c.Session, TakesRounds: c.TakesRounds, Depth: c.Depth, Trace: c.TraceContext,
		Principal: principalHeader{
			Profile: p.Profile, Subject: p.Subject, Issuer: p.Issuer, Groups: p.Groups, Scopes: p.Scopes, AuthMethod: p.AuthMethod, KeyID: p.KeyID,
			Claims: raw(p.Claims), Expires: p.Expires, Token: p.Token.Reveal(),
		},
		Client: clientHeader{Key: client.Key, Sessionless: client.Sessionless, Revision: client.Revision, Info: raw(client.Info), Capabilities: raw(client.Capabilities)},
	}, c.Params)
}

// decodeCall returns a call without a back channel, and what it is for.
func decodeCall(data []byte) (to string, c *call.Call, err error) {
	var h callHeader
	params, err := split(data, &h)
	if err != nil {
		return "", nil, err
	}
	p, client := h.Principal, h.Client
	if h.Method == "" || p.AuthMethod == "" || client.Revision == "" || h.HasParams != (len(params) > 0) {
		return "", nil, errMalformed
	}
	if !h.HasParams {
		params = nil
	}
	c = &call.Call{
		ID: h.ID, Method: h.Method, Params: params, Remote: h.Remote, By: h.By, WithoutGrants: h.WithoutGrants, ShareKey: h.ShareKey, LogLevel: h.LogLevel, LevelUnset: h.LevelUnset,
		Session: h.Session, TakesRounds: h.TakesRounds, Depth: h.Depth, TraceContext: h.Trace,
		Principal: &call.Principal{
			Profile: p.Profile, Subject: p.Subject, Issuer: p.Issuer, Groups: p.Groups, Scopes: p.Scopes, AuthMethod: p.AuthMethod, KeyID: p.KeyID,
			Claims: wire.Raw(p.Claims), Expires: p.Expires,
		},
		Client: &call.Client{Key: client.Key, Sessionless: client.Sessionless, Revision: client.Revision, Info: wire.Raw(client.Info), Capabilities: wire.Raw(client.Capabilities)},
	}
	if p.Token != "" {
		c.Principal.Token = call.NewToken(p.Token)
	}
	return h.To, c, nil
}

// errorHeader is an error for a client.
type errorHeader struct {
	Code       int64         `json:"code"`
	Message    string        `json:"message"`
	Data       raw           `json:"data,omitempty"`
	Raw        raw           `json:"raw,omitempty"`
	Extra      string        `json:"extra,omitempty"`
	Refused    bool          `json:"refused,omitempty"`
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
	Scopes     []string      `json:"scopes,omitempty"`
}

// encodeError returns nil if the error is not one for a client.
func encodeError(err error) *errorHeader {
	rpc, ok := errors.AsType[*wire.Error](err)
	if !ok {
		return nil
	}
	h := &errorHeader{Code: rpc.Code, Message: rpc.Message, Data: raw(rpc.Data), Raw: raw(rpc.Raw), Extra: rpc.Extra}
	if refused, ok := errors.AsType[*call.Refused](err); ok {
		h.Refused, h.RetryAfter, h.Scopes = true, refused.RetryAfter, refused.Scopes
	}
	return h
}

func (h *errorHeader) err() error {
	rpc := &wire.Error{Code: h.Code, Message: h.Message, Data: wire.Raw(h.Data), Raw: wire.Raw(h.Raw), Extra: h.Extra}
	if h.Refused {
		return &call.Refused{Err: rpc, RetryAfter: h.RetryAfter, Scopes: h.Scopes}
	}
	return rpc
}

// resultHeader is the outcome of a call but the result object.
type resultHeader struct {
	Revision wire.Revision `json:"revision,omitempty"`
	Extra    string        `json:"extra,omitempty"`
	Error    *errorHeader  `json:"error,omitempty"`
	NotHeld  bool          `json:"notHeld,omitempty"` // the call was not made: see ErrNotHeld
	// Spent is the time in the stages of the call, by their names.
	Spent map[string]time.Duration `json:"spent,omitempty"`
}

// spentIn returns the times of the stages that a call has passed, nil if they were not measured.
func spentIn(t *call.Trace) (spent map[string]time.Duration) {
	for s := range call.NumStages {
		if d := t.Spent(s); d > 0 {
			if spent == nil {
				spent = map[string]time.Duration{}
			}
			spent[s.String()] = d
		}
	}
	return spent
}

// addSpent adds the times of a call at another replica to those of the call here.
func addSpent(t *call.Trace, spent map[string]time.Duration) {
	for s := range call.NumStages {
		if d := spent[s.String()]; d > 0 {
			t.Add(s, d)
		}
	}
}

// messageKind is the kind of a message of a conversation.
type messageKind byte

const (
	notify   messageKind = 'n' // to the caller's replica
	ask      messageKind = 'a' // to the caller's replica
	withdraw messageKind = 'w' // to the caller's replica: an ask needs no answer any more
	answer   messageKind = 'r' // from the caller's replica
)

// messageHeader is a message but its params or answer.
type messageHeader struct {
	Kind   messageKind  `json:"kind"`
	Ask    uint64       `json:"ask,omitempty"`
	Method string       `json:"method,omitempty"`
	Error  *errorHeader `json:"error,omitempty"`
	Has    bool         `json:"has,omitempty"` // params or an answer
}
