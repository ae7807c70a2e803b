package requestid

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"unsafe"
)

// Header is the header with the id, in requests and responses.
const Header = "X-Request-Id"

const (
	// maxLen bounds the ids of clients.
	maxLen = 128
	// madeLen is the length of ids that are made here: 100 random bits.
	madeLen = 20
	// digits are those of ids, without letters that look like others.
	digits = "0123456789abcdefghjkmnpqrstvwxyz"
)

// New returns a new id. It makes no system call.
func New() string { return newValue()[0] }

// Part returns the id of one of several messages that a request carried.
func Part(id string, number int) string { return id + "." + strconv.Itoa(number) }

// newValue returns a header value with a new id. Both are one allocation.
func newValue() []string {
	v := &struct {
		value [1]string
		text  [madeLen]byte
	}{}
	for i := 0; i < madeLen; {
		for bits, n := rand.Uint64(), 0; n < 10; i, n = i+1, n+1 {
			v.text[i] = digits[bits&31]
			bits >>= 5
		}
	}
	v.value[0] = unsafe.String(&v.text[0], madeLen) // nothing writes to the text again
	return v.value[:]
}

// Valid reports whether an id of a client is taken over: it has 1 to 128 letters, digits and
// characters of "-._~+", and begins with a letter or digit. People paste ids into commands, so
// characters that mean something to a shell are not valid.
func Valid(id string) bool {
	if id == "" || len(id) > maxLen {
		return false
	}
	for i := range len(id) {
		switch b := id[i]; {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9':
		case i > 0 && (b == '-' || b == '.' || b == '_' || b == '~' || b == '+'):
		default:
			return false
		}
	}
	return true
}

// IsMade reports whether a text has the form of the ids that New returns.
func IsMade(id string) bool {
	return len(id) == madeLen && strings.Trim(id, digits) == ""
}

// Set gives the response to r the id of r, or a new one if r has no valid id, and returns it.
// A response that has an id keeps it.
func Set(w http.ResponseWriter, r *http.Request) string {
	h := w.Header()
	if id := h[Header]; len(id) == 1 {
		return id[0]
	}
	id := r.Header[Header]
	if len(id) != 1 || !Valid(id[0]) {
		id = newValue()
	}
	h[Header] = id
	return id[0]
}

// Of returns the id that Set gave to a response, "" before.
func Of(w http.ResponseWriter) string {
	if id := w.Header()[Header]; len(id) == 1 {
		return id[0]
	}
	return ""
}

// Handler sets the id of each response before next serves the request.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Set(w, r)
		next.ServeHTTP(w, r)
	})
}
