# The commands of this project. `make test` is the one that README.md names and
# continuous integration runs.

GO ?= go
FUZZTIME ?= 30s
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: build test race lint bench benchmarks fuzz clean

build: ## bin/gateway, a static binary
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/gateway ./cmd/gateway

test: ## installs what the tests need, then runs all of them
	test/install.sh
	$(GO) test ./...

race: ## the unit tests under the race detector
	$(GO) test -race ./internal/... ./cmd/...

lint:
	@files=$$(gofmt -l cmd internal test bench); test -z "$$files" || { echo "gofmt: $$files"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

bench: ## side by side: direct, httputil.ReverseProxy, an SDK proxy, the gateway
	$(GO) run ./bench

benchmarks: ## every Go benchmark once, so that none rots
	$(GO) test -run '^$$' -bench . -benchtime 1x ./internal/...

fuzz: ## every fuzz target for FUZZTIME
	@for pkg in $$($(GO) list ./internal/...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; done

clean:
	rm -rf bin test/node_modules
