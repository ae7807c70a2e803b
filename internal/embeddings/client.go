package embeddings

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
)

// The bounds on what the server may answer.
const (
	maxAnswer     = 32 << 20 // bytes
	maxDimensions = 8192
)

// Server is an OpenAI-compatible server of embeddings.
type Server struct {
	URL   string // of the API, such as http://127.0.0.1:11434/v1
	Model string
	Key   string // "" for none
	HTTP  *http.Client
}

// endpoint returns the URL to which texts are posted.
func (s *Server) endpoint() string {
	url := strings.TrimRight(s.URL, "/")
	if strings.HasSuffix(url, "/embeddings") {
		return url
	}
	return url + "/embeddings"
}

// vectors returns a vector of length 1 for each text.
func (s *Server) vectors(ctx context.Context, texts []string) ([][]float32, error) {
	body, err := json.Marshal(map[string]any{"model": s.Model, "input": texts, "encoding_format": "float"})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if s.Key != "" {
		req.Header.Set("Authorization", "Bearer "+s.Key)
	}
	resp, err := s.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // nothing is lost
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server of embeddings answers %s", resp.Status)
	}
	var answer struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxAnswer {
		return nil, fmt.Errorf("the server of embeddings answers with more than %d MiB", maxAnswer>>20)
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("the server of embeddings does not answer as /v1/embeddings does: %w", err)
	}
	out := make([][]float32, len(texts))
	for _, d := range answer.Data {
		if d.Index < 0 || d.Index >= len(out) || out[d.Index] != nil || !normalize(d.Embedding) {
			return nil, errors.New("the server of embeddings answers with vectors that do not fit the texts")
		}
		out[d.Index] = d.Embedding
	}
	for _, v := range out {
		if v == nil || len(v) != len(out[0]) {
			return nil, errors.New("the server of embeddings answers with vectors that do not fit the texts")
		}
	}
	return out, nil
}

// normalize makes the length of a vector 1. It returns false for a vector that has no
// direction or too many dimensions.
func normalize(v []float32) bool {
	sum := 0.0
	for _, f := range v {
		sum += float64(f) * float64(f)
	}
	if len(v) > maxDimensions || !(sum > 0) || math.IsInf(sum, 0) {
		return false
	}
	scale := float32(1 / math.Sqrt(sum))
	for i := range v {
		v[i] *= scale
	}
	return true
}
