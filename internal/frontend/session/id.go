package session

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"mcpgateway/internal/call"
	"mcpgateway/internal/seal"
	"mcpgateway/internal/wire"
)

// MaxLife is how long a sealed id is valid, unless idle sessions are kept for longer.
const MaxLife = 7 * 24 * time.Hour

// maxID bounds sealed ids, in bytes. Each request carries its id in a header, and proxies bound
// their headers, some to 4 KiB.
const maxID = 2048

// Further errors of ids, for the log. Clients must not learn which one it is.
var (
	ErrUnknownKey = errors.New("the session id is sealed with a key that this replica does not have")
	ErrExpired    = errors.New("the session id has expired")
)

// NewID returns an id of more than 128 random bits in visible ASCII (2025-11-25,
// basic/transports, "Session Management").
func NewID() string { return rand.Text() + rand.Text() }

// idPurpose is the purpose of session ids, see [seal.New].
const idPurpose = "mcpgateway session id"

// idVersion is the version of the content of an id, and the kind of its seal. A process that does
// not know a version does not open the id, and its client begins a new session.
const idVersion = 1

// IDs makes and opens the ids of sessions. A sealed id contains the data that a process needs to
// serve the session, and every process with one of the keys can open it. It contains 192 random
// bits.
//
// The content is
//
//	opened ‖ expires ‖ digest of the principal's identity ‖ profile ‖ revision ‖ clientInfo ‖ capabilities
//
// with times in milliseconds, and a length in 16 bits before each of the last four. A nil IDs makes
// random ids, which are known only to the process that made them.
type IDs struct {
	sealer *seal.Sealer
	life   time.Duration
}

// NewIDs returns ids that are sealed with the first key, and opened with any. Without keys it
// returns nil. A session that is not used for idle can still be used.
func NewIDs(keys [][]byte, idle time.Duration) *IDs {
	if len(keys) == 0 {
		return nil
	}
	return &IDs{seal.New(idPurpose, keys...), max(MaxLife, idle)}
}

// Claims are the data about a session in its id.
type Claims struct {
	Client  *call.Client // its Key is the id
	Opened  time.Time
	Expires time.Time // the zero time if the id is not sealed: the session ends with its process
}

// Seal returns the claims of a new session of a principal, and makes the Key of the client. If the
// id would be too long, it contains only name, title and version of the clientInfo. If it is too
// long even so, the id is random.
func (ids *IDs) Seal(client *call.Client, who *call.Principal, now time.Time) Claims {
	client.Key = NewID()
	if ids == nil {
		return Claims{Client: client, Opened: now}
	}
	expires := now.Add(ids.life)
	for _, info := range []wire.Raw{client.Info, briefInfo(client.Info)} {
		content := make([]byte, 0, 512)
		content = binary.BigEndian.AppendUint64(content, uint64(now.UnixMilli()))
		content = binary.BigEndian.AppendUint64(content, uint64(expires.UnixMilli()))
		content = append(content, identityDigest(who)...)
		size := len(content) + 4*2 + len(who.Profile) + len(client.Revision) + len(info) + len(client.Capabilities)
		if seal.SizeOf(size) > maxID {
			continue
		}
		for _, field := range []string{who.Profile, string(client.Revision), string(info), string(client.Capabilities)} {
			content = binary.BigEndian.AppendUint16(content, uint16(len(field)))
			content = append(content, field...)
		}
		client.Key = ids.sealer.Seal(idVersion, content)
		return Claims{Client: client, Opened: now, Expires: expires}
	}
	return Claims{Client: client, Opened: now}
}

// briefInfo returns a clientInfo with only the members that say which program it is.
func briefInfo(info wire.Raw) wire.Raw {
	if info == nil {
		return nil
	}
	out := wire.Raw(`{}`)
	for _, name := range []string{"name", "title", "version"} {
		if v := wire.ValueOf(info).Get(name); v.Kind() == '"' {
			out = wire.SetMember(out, name, v.Raw())
		}
	}
	return out
}

// Open returns the claims of a session, if its id was sealed for this principal in the same
// profile, and now is before its end. The error is ErrUnknown, ErrUnknownKey, ErrExpired, ErrForeign
// or ErrProfile.
func (ids *IDs) Open(id string, who *call.Principal, now time.Time) (Claims, error) {
	if ids == nil || len(id) > maxID {
		return Claims{}, ErrUnknown
	}
	version, content, err := ids.sealer.Open(id)
	switch {
	case err == seal.ErrUnknownKey:
		return Claims{}, ErrUnknownKey
	case err != nil, version != idVersion:
		return Claims{}, ErrUnknown
	}
	c, ok := parseID(content)
	switch {
	case !ok || c.client.Era() != wire.EraLegacy: // sealed by another version
		return Claims{}, ErrUnknown
	case subtle.ConstantTimeCompare(c.owner, identityDigest(who)) == 0:
		return Claims{}, ErrForeign
	case c.profile != who.Profile:
		return Claims{}, ErrProfile
	case !now.Before(c.expires):
		return Claims{}, ErrExpired
	}
	c.client.Key = strings.Clone(id) // the header may share its memory with others
	return Claims{Client: c.client, Opened: c.opened, Expires: c.expires}, nil
}

// idContent is the content of a sealed id.
type idContent struct {
	opened, expires time.Time
	owner           []byte
	profile         string
	client          *call.Client
}

func parseID(content []byte) (idContent, bool) {
	const fixed = 2*8 + sha256.Size
	if len(content) < fixed {
		return idContent{}, false
	}
	at := func(i int) time.Time { return time.UnixMilli(int64(binary.BigEndian.Uint64(content[i:]))) }
	c := idContent{opened: at(0), expires: at(8), owner: content[16:fixed]}
	var fields [4][]byte
	rest := content[fixed:]
	for i := range fields {
		if len(rest) < 2 {
			return idContent{}, false
		}
		n := int(binary.BigEndian.Uint16(rest))
		if rest = rest[2:]; n > len(rest) {
			return idContent{}, false
		}
		if n > 0 {
			fields[i] = rest[:n:n]
		}
		rest = rest[n:]
	}
	c.profile = string(fields[0])
	c.client = &call.Client{Revision: wire.Revision(fields[1]), Info: fields[2], Capabilities: fields[3]}
	return c, len(rest) == 0
}

// identityDigest returns what an id contains of a principal, whichever profile it uses.
func identityDigest(who *call.Principal) []byte {
	sum := sha256.Sum256([]byte(who.Identity()))
	return sum[:]
}
