package embeddings

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mcpgateway/internal/plaintext"
	"mcpgateway/internal/search"
)

const (
	// batch is how many texts are sent in one request.
	batch = 64
	// batchTimeout bounds the time for the vectors of a batch.
	batchTimeout = time.Minute
	// saveEvery is after how many new vectors they are saved although more are missing.
	saveEvery = 32 * batch
	// queryTimeout bounds how long a search waits for the vector of its query.
	queryTimeout = 500 * time.Millisecond
	// pause is how long searches do not ask a server that has failed.
	pause = 30 * time.Second
	// minBackoff and maxBackoff bound the time between two attempts for the vectors of tools.
	minBackoff, maxBackoff = time.Second, 5 * time.Minute
	// maxText is how many bytes of a tool or a query are sent.
	maxText = 2 << 10
	// maxDocs is how many documents have vectors.
	maxDocs = 50_000
	// maxUnwanted is how many vectors are kept beside twice those that are wanted.
	maxUnwanted = 5_000
	// maxNearest is how many documents a ranking has.
	maxNearest = 50
)

// Store has the vectors of documents. Its methods may be called concurrently.
type Store struct {
	server Server
	file   string // "" for none
	log    *zap.Logger

	vectors atomic.Pointer[map[*search.Doc][]float32]
	paused  atomic.Int64 // Unix nanoseconds until which queries are not sent

	mu      sync.Mutex
	keys    map[*search.Doc]key // of the documents that Follow got last
	texts   map[key]string      // whose vectors are missing
	wanted  map[key]bool        // those of keys
	made    map[key][]float32
	changed chan struct{}
}

// New makes a store. Vectors are kept in file; with "" they are made again after a restart.
func New(server Server, file string, log *zap.Logger) *Store {
	s := &Store{server: server, file: file, log: log, keys: map[*search.Doc]key{}, texts: map[key]string{}, made: map[key][]float32{}, changed: make(chan struct{}, 1)}
	s.vectors.Store(&map[*search.Doc][]float32{})
	if file != "" {
		made, err := read(file)
		if err != nil {
			log.Warn("the kept embeddings cannot be read; they are made again", zap.String("file", file), zap.Error(err))
		} else {
			s.made = made
		}
	}
	return s
}

// Follow says which documents searches may rank from now on. Each comes with a function that
// describes the tool in words; it is called for documents that are new.
func (s *Store) Follow(docs map[*search.Doc]func() string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make(map[*search.Doc]key, len(docs))
	s.wanted = make(map[key]bool, len(docs))
	for d, text := range docs {
		k, known := s.keys[d]
		if !known {
			if len(keys) >= maxDocs {
				continue
			}
			t := plaintext.Truncate(text(), maxText)
			k = s.server.keyOf(t)
			if s.made[k] == nil && t != "" {
				s.texts[k] = t
			}
		}
		keys[d] = k
		s.wanted[k] = true
	}
	s.keys = keys
	maps.DeleteFunc(s.texts, func(k key, _ string) bool { return !s.wanted[k] })
	s.publish()
	select {
	case s.changed <- struct{}{}:
	default: // the pending signal covers this change
	}
}

// publish shows searches the vectors that are there. s.mu is held.
func (s *Store) publish() {
	vectors := make(map[*search.Doc][]float32, len(s.keys))
	for d, k := range s.keys {
		if v := s.made[k]; v != nil {
			vectors[d] = v
		}
	}
	s.vectors.Store(&vectors)
}

// Run makes missing vectors until ctx ends.
func (s *Store) Run(ctx context.Context) {
	defer s.server.HTTP.CloseIdleConnections()
	backoff := minBackoff
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
			if retry != nil {
				continue // the attempt that is due covers the change
			}
		case <-retry:
		}
		retry = nil
		err := s.fill(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.log.Warn("embeddings of tools cannot be made; search goes on without them", zap.Duration("next_attempt", backoff), zap.Error(err))
			retry = time.After(backoff)
			backoff = min(2*backoff, maxBackoff)
		default:
			backoff = minBackoff
		}
	}
}

// fill makes all missing vectors.
func (s *Store) fill(ctx context.Context) error {
	unsaved := 0
	for {
		keys, texts := s.missing()
		if len(keys) == 0 {
			if unsaved > 0 {
				s.save()
			}
			return nil
		}
		bounded, cancel := context.WithTimeout(ctx, batchTimeout)
		vectors, err := s.server.vectors(bounded, texts)
		cancel()
		if err != nil {
			if unsaved > 0 {
				s.save()
			}
			return err
		}
		s.mu.Lock()
		for i, k := range keys {
			s.made[k] = vectors[i]
			delete(s.texts, k)
		}
		s.publish()
		s.mu.Unlock()
		if unsaved += len(keys); unsaved >= saveEvery {
			s.save()
			unsaved = 0
		}
	}
}

// missing returns a batch of texts whose vectors are missing.
func (s *Store) missing() (keys []key, texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, t := range s.texts {
		if len(keys) == batch {
			break
		}
		keys, texts = append(keys, k), append(texts, t)
	}
	return keys, texts
}

// save writes the vectors. Vectors of tools that are not listed now are kept too, within a bound:
// their server may be down for a while, as all are after a start.
func (s *Store) save() {
	s.mu.Lock()
	if len(s.made) > 2*len(s.wanted)+maxUnwanted {
		maps.DeleteFunc(s.made, func(k key, _ []float32) bool { return !s.wanted[k] })
	}
	made := maps.Clone(s.made)
	s.mu.Unlock()
	if s.file == "" {
		return
	}
	if err := write(s.file, made); err != nil {
		s.log.Warn("embeddings cannot be kept; they are made again after a restart", zap.String("file", s.file), zap.Error(err))
	}
}

// Nearest returns the places in an index of the documents that are nearest to a query, the
// nearest first, for [search.Query.Nearest]. It returns nil if the server does not answer in
// time, and does not ask it for a while then.
func (s *Store) Nearest(ctx context.Context, x *search.Index, text string) []int {
	vectors := *s.vectors.Load()
	text = plaintext.Truncate(text, maxText)
	if now := time.Now().UnixNano(); len(vectors) == 0 || text == "" || now < s.paused.Load() {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	answer, err := s.server.vectors(bounded, []string{text})
	if err != nil {
		if ctx.Err() == nil {
			s.paused.Store(time.Now().Add(pause).UnixNano())
			s.log.Warn("the embedding of a query cannot be made in time; searches go on without for a while", zap.Duration("pause", pause), zap.Error(err))
		}
		return nil
	}
	return nearest(x, vectors, answer[0])
}

// nearest ranks the documents of an index that have vectors.
func nearest(x *search.Index, vectors map[*search.Doc][]float32, query []float32) []int {
	type ranked struct {
		place int
		cos   float32
	}
	var all []ranked
	for i := range x.Len() {
		if v := vectors[x.Doc(i)]; len(v) == len(query) {
			all = append(all, ranked{i, dot(v, query)})
		}
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.cos, a.cos), cmp.Compare(a.place, b.place))
	})
	places := make([]int, min(len(all), maxNearest))
	for i := range places {
		places[i] = all[i].place
	}
	return places
}

func dot(a, b []float32) (sum float32) {
	for i, f := range a {
		sum += f * b[i]
	}
	return sum
}
