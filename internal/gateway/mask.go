package gateway

import (
	"encoding/json"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"go.uber.org/zap/zapcore"

	"mcpgateway/internal/config"
)

// masked stands in the place of a secret.
const masked = "[redacted]"

// masks take the secrets of the configuration out of what others said: upstreams
// that print what they were given, peers that repeat a header in an error. They guard
// against mishaps: whoever wants to give a secret away finds a form that is not
// known here. The zero value knows none; the methods may be called by many goroutines
// at once. The cost grows with the text, not with the number of secrets.
type masks struct {
	now atomic.Pointer[mask]

	mu    sync.Mutex
	known []string // the newest last
}

// maxOldSecrets bounds how many are known that the next configuration does not have.
const maxOldSecrets = 1000

// learn takes the secrets of the next configuration. Others stay known: what is
// connected with them may go on for a while, and where the next configuration is
// refused it is the one before that runs.
func (m *masks) learn(cfg *config.Config) {
	secrets := cfg.Secrets(os.LookupEnv)
	m.mu.Lock()
	defer m.mu.Unlock()
	old := slices.DeleteFunc(m.known, func(s string) bool { return slices.Contains(secrets, s) })
	m.known = slices.Concat(old[max(0, len(old)-maxOldSecrets):], secrets)
	m.now.Store(newMask(m.known))
}

// mask replaces secrets. Most texts hold none, and each line of the log is made of
// texts: so those are told at a glance, by how secrets begin.
type mask struct {
	replacer *strings.Replacer
	begins   [1 << 16 / 64]uint64 // a bit for each beginning, see beginning
}

// beginBytes is how much of a secret its beginning is; no secret is shorter.
const beginBytes = 4

// beginning returns which bit stands for the first bytes of s.
func beginning(s string) (word, bit uint32) {
	h := (uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24) * 2654435761 >> 16
	return h / 64, h % 64
}

// text returns s with each secret masked.
func (m *mask) text(s string) string {
	for i := 0; i+beginBytes <= len(s); i++ {
		if word, bit := beginning(s[i:]); m.begins[word]>>bit&1 != 0 {
			return m.replacer.Replace(s)
		}
	}
	return s
}

// newMask returns what masks secrets, also as they stand in JSON, between quotes
// of Go, and in URLs; nil for none.
func newMask(secrets []string) *mask {
	if len(secrets) == 0 {
		return nil
	}
	var forms []string
	for _, s := range secrets {
		quoted, _ := json.Marshal(s) // no string fails
		forms = append(forms, s, inner(string(quoted)), inner(strconv.Quote(s)), url.QueryEscape(s), url.PathEscape(s))
	}
	// Of two that begin at one place the longer one counts.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	m := &mask{}
	pairs := make([]string, 0, 2*len(forms))
	for _, f := range forms {
		pairs = append(pairs, f, masked)
		word, bit := beginning(f)
		m.begins[word] |= 1 << bit
	}
	m.replacer = strings.NewReplacer(pairs...)
	return m
}

// text returns s with each secret masked.
func (m *masks) text(s string) string {
	if now := m.now.Load(); now != nil {
		return now.text(s)
	}
	return s
}

// core returns a core that writes to c with each secret masked.
func (m *masks) core(c zapcore.Core) zapcore.Core { return &maskedCore{c, m} }

// maskedCore masks what is logged: messages, texts, errors, and texts in lists.
type maskedCore struct {
	zapcore.Core
	masks *masks
}

func (c *maskedCore) With(fields []zapcore.Field) zapcore.Core {
	return &maskedCore{c.Core.With(c.fields(fields)), c.masks}
}

func (c *maskedCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(e.Level) {
		return ce
	}
	return ce.AddCore(e, c)
}

func (c *maskedCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	e.Message = c.masks.text(e.Message)
	if ce := c.Core.Check(e, nil); ce != nil { // which says who writes: with hooks those are several
		ce.Write(c.fields(fields)...)
	}
	return nil
}

// fields returns the fields masked; those given stay as they are.
func (c *maskedCore) fields(fields []zapcore.Field) []zapcore.Field {
	var out []zapcore.Field // made for the first that changes
	for i, f := range fields {
		if next, changed := c.field(f); changed {
			if out == nil {
				out = slices.Clone(fields)
			}
			out[i] = next
		}
	}
	if out == nil {
		return fields
	}
	return out
}

func (c *maskedCore) field(f zapcore.Field) (next zapcore.Field, changed bool) {
	switch f.Type {
	case zapcore.StringType:
		s := c.masks.text(f.String)
		changed = s != f.String
		f.String = s
		return f, changed
	case zapcore.ByteStringType, zapcore.ErrorType, zapcore.StringerType, zapcore.ArrayMarshalerType, zapcore.ReflectType:
		enc := zapcore.NewMapObjectEncoder()
		f.AddTo(enc)
		value, changed := c.value(enc.Fields[f.Key])
		if !changed {
			return f, false
		}
		return zapcore.Field{Key: f.Key, Type: zapcore.ReflectType, Interface: value}, true
	default:
		return f, false
	}
}

// value masks a value that was made out of a field.
func (c *maskedCore) value(v any) (any, bool) {
	switch v := v.(type) {
	case string:
		s := c.masks.text(v)
		return s, s != v
	case []any:
		out, changed := make([]any, len(v)), false
		for i := range v {
			var one bool
			out[i], one = c.value(v[i])
			changed = changed || one
		}
		return out, changed
	default:
		return v, false
	}
}

// inner is a text without the quotes around it.
func inner(quoted string) string { return quoted[1 : len(quoted)-1] }
