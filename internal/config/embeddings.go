package config

// Embeddings is an OpenAI-compatible server of embeddings, by which searches rank tools too.
type Embeddings struct {
	URL   string `yaml:"url" format:"base-url" doc:"URL of an OpenAI-compatible API, such as http://127.0.0.1:11434/v1; /embeddings is appended; empty means none"`
	Model string `yaml:"model" doc:"model of the embeddings"`
	Key   Secret `yaml:"key" doc:"API key that is sent as a bearer token"`
}

// check refuses half of a server, and warns of a key that is sent in clear text.
func (e *Embeddings) check(m *mapping) {
	if g, ok := m.given["url"]; ok && e.URL == "" && g.Value.Value != "" {
		return // the error about it is enough
	}
	switch {
	case e.URL != "" && e.Model == "":
		m.errorf("url", "needs model: the server has to know which of its models makes the embeddings")
	case e.URL == "" && e.Model != "":
		m.errorf("model", "needs url")
	case e.URL == "" && !e.Key.IsZero():
		m.errorf("key", "needs url and model")
	case !e.Key.IsZero() && !isProtected(e.URL):
		m.warnf("url", "key goes over the network unprotected; write https")
	}
}
