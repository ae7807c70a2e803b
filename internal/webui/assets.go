package webui

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"

	"github.com/go-chi/chi/v5"
)

//go:embed static
var staticFiles embed.FS

// assets are the files of browsers. Their path has a digest of all of them, so that browsers may keep them.
var assets, assetVersion = func() (map[string][]byte, string) {
	all, sum := make(map[string][]byte), sha256.New()
	entries, err := fs.ReadDir(staticFiles, "static")
	if err != nil {
		panic(err) // they are in the binary
	}
	for _, e := range entries {
		b, err := staticFiles.ReadFile("static/" + e.Name())
		if err != nil {
			panic(err)
		}
		all[e.Name()] = b
		sum.Write(b)
	}
	return all, hex.EncodeToString(sum.Sum(nil)[:8])
}()

// assetPath returns the path of a file below a base.
func assetPath(base, name string) string { return base + "/static/" + assetVersion + "/" + name }

func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := chi.URLParam(r, "name")
	b, ok := assets[name]
	if !ok || chi.URLParam(r, "version") != assetVersion {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	_, _ = w.Write(b) // the browser may have disconnected
}
