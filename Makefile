# The commands of this project. `make test` is the one that README.md names and
# continuous integration runs.

GO ?= go
FUZZTIME ?= 30s
SOAK_CALLS ?= 1000000
# What one package of tests may take. The longest need minutes; a slow machine that is busy, several times that.
TEST_TIMEOUT ?= 40m
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

# The platforms of make dist; an empty list means all that a release has.
PLATFORMS ?=

.PHONY: build dist test race soak reload lint bench bench-quick benchmarks fuzz clean

build: ## bin/gateway, a static binary
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/gateway ./cmd/gateway

dist: ## bin/dist: archives, packages, formula, checksums; PLATFORMS=linux/amd64 for one, VERSION=1.2.3, URL=https://... for the formula
	$(GO) -C deploy/dist run . $(if $(PLATFORMS),-platforms $(PLATFORMS)) $(if $(VERSION),-version $(VERSION)) $(if $(URL),-url $(URL))

test: ## installs what the tests need, then runs all of them
	test/install.sh
	$(GO) test -timeout $(TEST_TIMEOUT) ./...
	cd deploy/test && $(GO) test -timeout $(TEST_TIMEOUT) -count=1 ./...
	cd deploy/dist && $(GO) test -timeout $(TEST_TIMEOUT) -count=1 ./...
	cd bench/tokens && $(GO) test -timeout $(TEST_TIMEOUT) -count=1 ./...

race: ## the unit tests and a short soak, of replicas too, under the race detector
	test/replicas/install.sh
	$(GO) test -race -timeout $(TEST_TIMEOUT) ./internal/... ./cmd/... ./test/soak

soak: ## a million random calls; SOAK_CALLS sets another number
	test/replicas/install.sh
	$(GO) test ./test/soak -run TestSoak -v -count 1 -timeout 2h -calls $(SOAK_CALLS)

reload: ## a reload every 200 ms for 30 s, under load
	$(GO) test ./test/reload -run TestReloadsUnderLoad -v -count 1 -timeout 10m -for 30s

lint:
	@files=$$(gofmt -l cmd internal test bench deploy); test -z "$$files" || { echo "gofmt: $$files"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	GOOS=darwin $(GO) build ./... && GOOS=windows $(GO) build ./...
	for module in deploy/test deploy/dist bench/tokens test/traces/collector; do (cd $$module && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./...) || exit 1; done

bench: ## all workloads of docs/performance.md, beside httputil.ReverseProxy, nginx and an SDK proxy; the figures go to bin/bench.json
	bench/nginx.sh
	test/replicas/install.sh
	mkdir -p bin
	$(GO) run ./bench -turns 15 -rounds 3 -duration 300ms -warmup 100ms -json bin/bench.json

bench-quick: ## the most important workloads in short
	bench/nginx.sh
	test/replicas/install.sh
	$(GO) run ./bench -turns 3 -workload json-1k,json-1m,eras,list

benchmarks: ## every Go benchmark once, so that none rots
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout $(TEST_TIMEOUT) ./internal/...

fuzz: ## every fuzz target for FUZZTIME, two at a time
	@for pkg in $$($(GO) list ./internal/...); do \
	  $(GO) test -list '^Fuzz' $$pkg | sed -n "s|^Fuzz.*|$$pkg &|p"; \
	done | xargs -P 2 -L 1 sh -c 'GO=$(GO) test/fuzz.sh $$0 $$1 $(FUZZTIME)'

clean:
	rm -rf bin test/node_modules test/hosts/node_modules test/console/node_modules
