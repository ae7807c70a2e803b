package admin

import (
	"encoding/json"
	"io"
	"net/http"

	"go.uber.org/zap/zapcore"
)

// maxLevelBody bounds the body of PUT /-/loglevel, in bytes.
const maxLevelBody = 1 << 10

// levels are the levels that can be set, by their names in telemetry.log.level.
var levels = map[string]zapcore.Level{
	"debug": zapcore.DebugLevel, "info": zapcore.InfoLevel, "warn": zapcore.WarnLevel, "error": zapcore.ErrorLevel,
}

// logLevel is the body of /-/loglevel, in both directions.
type logLevel struct {
	Level string `json:"level"`
}

func (o Options) serveLogLevel(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, logLevel{o.LogLevel.Level().String()})
}

func (o Options) setLogLevel(w http.ResponseWriter, r *http.Request) {
	var body logLevel
	err := json.NewDecoder(io.LimitReader(r.Body, maxLevelBody)).Decode(&body)
	level, known := levels[body.Level]
	if err != nil || !known {
		http.Error(w, `bad request: send {"level": "debug"}, or info, warn or error`, http.StatusBadRequest)
		return
	}
	from := o.LogLevel.Level()
	if level > from && o.LevelChanging != nil {
		o.LevelChanging(w, r, from, level)
	}
	o.LogLevel.SetLevel(level)
	if level < from && o.LevelChanging != nil {
		o.LevelChanging(w, r, from, level)
	}
	o.serveLogLevel(w, r)
}
