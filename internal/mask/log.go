package mask

import (
	"slices"

	"go.uber.org/zap/zapcore"
)

// WrapCore returns a core that masks messages and fields before it writes them to c. It
// masks strings, errors and lists of strings. Use it with [go.uber.org/zap.WrapCore].
func (s *Secrets) WrapCore(c zapcore.Core) zapcore.Core { return &core{c, s} }

type core struct {
	zapcore.Core
	secrets *Secrets
}

// With implements zapcore.Core.
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{c.Core.With(c.maskAll(fields)), c.secrets}
}

// Check implements zapcore.Core.
func (c *core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(e.Level) {
		return ce
	}
	return ce.AddCore(e, c)
}

// Write implements zapcore.Core.
func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	e.Message = c.secrets.Mask(e.Message)
	if ce := c.Core.Check(e, nil); ce != nil { // a core with hooks adds several cores
		ce.Write(c.maskAll(fields)...)
	}
	return nil
}

// maskAll returns masked fields and leaves the argument as it is.
func (c *core) maskAll(fields []zapcore.Field) []zapcore.Field {
	var out []zapcore.Field // allocated for the first field that changes
	for i, f := range fields {
		if next, changed := c.maskField(f); changed {
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

func (c *core) maskField(f zapcore.Field) (next zapcore.Field, changed bool) {
	switch f.Type {
	case zapcore.StringType:
		s := c.secrets.Mask(f.String)
		changed = s != f.String
		f.String = s
		return f, changed
	case zapcore.ByteStringType, zapcore.ErrorType, zapcore.StringerType, zapcore.ArrayMarshalerType, zapcore.ReflectType:
		enc := zapcore.NewMapObjectEncoder()
		f.AddTo(enc)
		value, changed := c.maskValue(enc.Fields[f.Key])
		if !changed {
			return f, false
		}
		return zapcore.Field{Key: f.Key, Type: zapcore.ReflectType, Interface: value}, true
	default:
		return f, false
	}
}

// maskValue masks a value that an encoder made of a field.
func (c *core) maskValue(v any) (any, bool) {
	switch v := v.(type) {
	case string:
		s := c.secrets.Mask(v)
		return s, s != v
	case []any:
		out, changed := make([]any, len(v)), false
		for i := range v {
			var one bool
			out[i], one = c.maskValue(v[i])
			changed = changed || one
		}
		return out, changed
	default:
		return v, false
	}
}
