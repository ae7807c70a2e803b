package bridge

import (
	"crypto/sha256"
	"errors"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/wire"
)

// sealedTask is the kind of the sealed text of a task id.
const sealedTask StateKind = 't'

// maxTaskID bounds the ids of upstreams, in bytes, because clients send the public id in a
// header.
const maxTaskID = 1024

// never is the expiry of task ids: the upstream decides when a task ends.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// ErrTask is the error for a task id that was not issued to this principal.
var ErrTask = errors.New("the task id was not issued to this principal")

// TaskRef is the content of a public task id.
type TaskRef struct {
	Upstream string
	Session  string // the upstream's session that has the task, see call.Call
	Native   string // the upstream's own id
	Form     wire.Era
	Tool     string // the native name of the tool that made the task
	Public   string // and its public name
	Replica  string // the replica where the task began, "" without others
}

// taskBinding is the binding of a task id: to a principal, and to no request.
func taskBinding(who *call.Principal) Binding {
	return Binding{principal: sha256.Sum256([]byte(who.Key())), request: sha256.Sum256([]byte("task"))}
}

// SealTask returns a public id for a task. It is valid only in requests of this principal, and
// cannot be guessed. Each call returns another id. It is "" if the id of the upstream is empty or
// too long.
func (s *Sealer) SealTask(t TaskRef, who *call.Principal) string {
	if t.Native == "" || len(t.Native) > maxTaskID {
		return ""
	}
	body := wire.Raw(`{}`)
	for _, m := range []struct{ name, value string }{
		{"id", t.Native}, {"session", t.Session}, {"form", t.Form.String()}, {"tool", t.Tool}, {"public", t.Public},
	} {
		body = wire.SetMember(body, m.name, wire.String(m.value))
	}
	if t.Replica != "" {
		body = wire.SetMember(body, "replica", wire.String(t.Replica))
	}
	return s.Seal(State{Kind: sealedTask, Recipient: t.Upstream, Text: string(body), Expires: never}, taskBinding(who))
}

// OpenTask opens a public task id. The error says why it is refused; clients do not learn the
// reason.
func (s *Sealer) OpenTask(id string, who *call.Principal) (TaskRef, error) {
	st, err := s.Open(id, taskBinding(who), time.Time{})
	switch {
	case err != nil:
		return TaskRef{}, err
	case st.Kind != sealedTask:
		return TaskRef{}, ErrTask
	}
	body := wire.ValueOf(wire.Raw(st.Text))
	t := TaskRef{Upstream: st.Recipient, Session: body.Get("session").Str(), Native: body.Get("id").Str(), Tool: body.Get("tool").Str(), Public: body.Get("public").Str(),
		Replica: body.Get("replica").Str()}
	for _, era := range []wire.Era{wire.EraLegacy, wire.EraModern} {
		if body.Get("form").IsString(era.String()) {
			t.Form = era
		}
	}
	return t, nil
}
