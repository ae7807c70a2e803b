package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrUnavailable means that the store cannot be reached, does not answer in time, or was not asked
// because it has failed just before. Every error of a store that is not that of the context wraps
// it.
var ErrUnavailable = errors.New("the store is not available")

// ErrWrongType means that the store has something of another type under a key: a value where a log
// is asked for, for example. The store itself works.
var ErrWrongType = fmt.Errorf("%w: the key has something of another type", ErrUnavailable)

// Key names something in a store. The store does not have the name itself, only a digest, because
// names may be secrets: ids of sessions, for example.
type Key struct {
	// Kind is the kind of the stored data, for example "session": a constant in lower case, which
	// is readable in the store. Equal names of different kinds are different keys.
	Kind string
	// Name identifies the thing among those of its kind.
	Name string
}

// Store keeps data for a limited time. Its methods may be called concurrently, and do not change or
// keep the slices that they get. Every time to live is counted from the last change, and is at
// least a millisecond. Returned slices belong to the caller.
//
// A method returns soon after its context has ended. Then, and with any other error, it is not
// known whether a change was made.
type Store interface {
	Values
	Fields
	Logs
	Limits
}

// Values are single values.
type Values interface {
	// Get returns the values of the keys, nil for missing ones.
	Get(ctx context.Context, keys ...Key) ([][]byte, error)
	// Put stores a value, and replaces an existing one.
	Put(ctx context.Context, key Key, value []byte, ttl time.Duration) error
	// PutNew keeps a value if there is none, in one step. It reports whether there was none.
	PutNew(ctx context.Context, key Key, value []byte, ttl time.Duration) (bool, error)
	// Take removes a value and returns it, nil if it is missing. If several callers take it
	// concurrently, only one gets it.
	Take(ctx context.Context, key Key) ([]byte, error)
	// Delete removes values, fields or logs. Missing ones are not an error.
	Delete(ctx context.Context, keys ...Key) error
}

// Fields are sets of named values, which expire together.
type Fields interface {
	// Fields returns all fields of a key. The names of fields are not secret.
	Fields(ctx context.Context, key Key) (map[string][]byte, error)
	// PutField keeps a field. It reports false, and does nothing, if the field is new and there
	// are max others.
	PutField(ctx context.Context, key Key, field string, value []byte, max int, ttl time.Duration) (bool, error)
	// DeleteField removes a field. A missing field is not an error.
	DeleteField(ctx context.Context, key Key, field string) error
}

// Entry is one entry of a log.
type Entry struct {
	ID   string // in the order of the log, for [Logs.Read]
	Data []byte
}

// Logs are sequences of entries.
type Logs interface {
	// Append adds entries at the end, in one step, and forgets the oldest entries except the
	// last keep ones.
	Append(ctx context.Context, key Key, keep int, ttl time.Duration, entries ...[]byte) error
	// Last returns the id of the last entry, "" if there is none.
	Last(ctx context.Context, key Key) (string, error)
	// Read returns the entries after the one with this id, at most max, the oldest first. The id is
	// "" for the beginning, or an id of this log; with any other id Read returns entries or an
	// error. If there are no entries, Read waits for some, at most the duration wait.
	Read(ctx context.Context, key Key, after string, max int, wait time.Duration) ([]Entry, error)
}

// Limit bounds the calls under one key.
type Limit struct {
	Key        Key
	Rate       float64 // calls per second; 0 means no such bound
	Burst      int     // calls at once after a pause; at least 1 with a Rate
	Concurrent int     // calls at the same time; 0 means no such bound
}

// Limits count calls. Rates are counted by the clock of the store.
type Limits interface {
	// Acquire takes one call out of each limit, or out of none. If a limit is reached, it returns
	// its index and how long to wait; otherwise the index is -1. The holder, which is unique,
	// counts as running until Release, or until the lease has passed without Renew.
	Acquire(ctx context.Context, holder string, lease time.Duration, limits ...Limit) (reached int, wait time.Duration, err error)
	// Renew makes holders count as running for another lease, even if their lease has expired or
	// the limit is reached.
	Renew(ctx context.Context, lease time.Duration, holders map[string][]Limit) error
	// Release makes a holder no longer count as running. The call still counts for rates.
	Release(ctx context.Context, holder string, limits ...Limit) error
}
