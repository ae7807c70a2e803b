package main

import (
	"net/http"
	"path/filepath"
)

// fileServer serves a folder. With ready it serves the file NAME.gz in place of
// NAME, as a server does that has compressed its files beforehand.
func fileServer(dir string, ready bool) http.Handler {
	if !ready {
		return http.FileServer(http.Dir(dir))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "application/json")
		http.ServeFile(w, r, filepath.Join(dir, filepath.Clean("/"+r.URL.Path)+".gz"))
	})
}
