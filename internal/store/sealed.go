package store

import (
	"context"
	"encoding/binary"
	"time"

	"mcpgateway/internal/seal"
)

// purpose keeps what is sealed here from opening anywhere else.
const purpose = "mcpgateway store"

// sealed is a Store whose values are sealed.
type sealed struct {
	Store
	sealer  *seal.Sealer
	refused func(kind string, err error)
}

// Sealed returns a Store that seals what it keeps in another one: with the first key, and opens it with any.
// Values, fields and entries of logs are sealed together with their place, so that what was moved to another
// key or field, or changed, or sealed with other keys, counts as absent; refused is then called with the
// kind of the key and an error of package seal. It may be called concurrently. There must be a key.
//
// Somebody who may write to the other store can still remove things, put back what was there before,
// and repeat or reorder the entries of one log. Names of fields, and what limits count, are not sealed.
func Sealed(s Store, keys [][]byte, refused func(kind string, err error)) Store {
	if len(keys) == 0 {
		panic("store: nothing seals without a key")
	}
	return &sealed{s, seal.New(purpose, keys...), refused}
}

// The types of places.
const (
	placeValue = 'v'
	placeField = 'f'
	placeEntry = 'e'
)

// place returns the context of what is kept under a key: its parts with their lengths.
func place(kind byte, key Key, field string) []byte {
	out := make([]byte, 0, 1+3*binary.MaxVarintLen32+len(key.Kind)+len(key.Name)+len(field))
	out = append(out, kind)
	for _, part := range []string{key.Kind, key.Name, field} {
		out = binary.AppendUvarint(out, uint64(len(part)))
		out = append(out, part...)
	}
	return out
}

// open returns what is sealed, nil if it is refused.
func (s *sealed) open(kind byte, key Key, field string, raw []byte) []byte {
	if raw == nil {
		return nil
	}
	content, err := s.sealer.OpenFor(place(kind, key, field), raw)
	if err != nil {
		s.refused(key.Kind, err)
		return nil
	}
	if content == nil {
		content = []byte{} // nil means that nothing is there
	}
	return content
}

// Get implements Values.
func (s *sealed) Get(ctx context.Context, keys ...Key) ([][]byte, error) {
	out, err := s.Store.Get(ctx, keys...)
	for i := range out {
		out[i] = s.open(placeValue, keys[i], "", out[i])
	}
	return out, err
}

// Put implements Values.
func (s *sealed) Put(ctx context.Context, key Key, value []byte, ttl time.Duration) error {
	return s.Store.Put(ctx, key, s.sealer.SealFor(place(placeValue, key, ""), value), ttl)
}

// PutNew implements Values. A value that would be refused counts as one that is there: it is not
// known what it was.
func (s *sealed) PutNew(ctx context.Context, key Key, value []byte, ttl time.Duration) (bool, error) {
	return s.Store.PutNew(ctx, key, s.sealer.SealFor(place(placeValue, key, ""), value), ttl)
}

// Take implements Values.
func (s *sealed) Take(ctx context.Context, key Key) ([]byte, error) {
	raw, err := s.Store.Take(ctx, key)
	return s.open(placeValue, key, "", raw), err
}

// Fields implements Fields.
func (s *sealed) Fields(ctx context.Context, key Key) (map[string][]byte, error) {
	out, err := s.Store.Fields(ctx, key)
	for field, raw := range out {
		if value := s.open(placeField, key, field, raw); value != nil {
			out[field] = value
		} else {
			delete(out, field)
		}
	}
	return out, err
}

// PutField implements Fields.
func (s *sealed) PutField(ctx context.Context, key Key, field string, value []byte, max int, ttl time.Duration) (bool, error) {
	return s.Store.PutField(ctx, key, field, s.sealer.SealFor(place(placeField, key, field), value), max, ttl)
}

// Append implements Logs.
func (s *sealed) Append(ctx context.Context, key Key, keep int, ttl time.Duration, entries ...[]byte) error {
	context, out := place(placeEntry, key, ""), make([][]byte, len(entries))
	for i, data := range entries {
		out[i] = s.sealer.SealFor(context, data)
	}
	return s.Store.Append(ctx, key, keep, ttl, out...)
}

// Read implements Logs. It passes over entries that are refused.
func (s *sealed) Read(ctx context.Context, key Key, after string, max int, wait time.Duration) ([]Entry, error) {
	until := time.Now().Add(wait)
	for {
		raw, err := s.Store.Read(ctx, key, after, max, wait)
		var out []Entry
		for _, e := range raw {
			if data := s.open(placeEntry, key, "", e.Data); data != nil {
				out = append(out, Entry{e.ID, data})
			}
		}
		if len(out) > 0 || len(raw) == 0 || err != nil {
			return out, err
		}
		after, wait = raw[len(raw)-1].ID, time.Until(until)
	}
}
