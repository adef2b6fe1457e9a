# Everything a fresh machine needs is Go and make; further tools come through the
# Go module proxy (see the tool lines of go.mod).
GO ?= go
BIN := bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -X main.version=$(VERSION)

.PHONY: all build demo test race lint bench fuzz generate clean

all: build

build: ## binaries in bin/
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/...

demo: build ## words of the Go source tree, counted across processes and verified
	./internal/demo/run.sh $(BIN)

test: ## all tests
	$(GO) test ./...

race: ## the heap-backed and in-process variants under the race detector
	$(GO) test -race ./...

lint: ## formatting, vet, staticcheck, both architectures
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "not gofmt-ed: $$unformatted"; exit 1; }
	$(GO) vet ./...
	GOARCH=arm64 $(GO) vet ./...
	$(GO) mod verify
	$(GO) mod tidy -diff
	$(GO) tool staticcheck ./...

# A number of runs, not a time: a fuzz run that is ended by its time may report
# that as a failure.
FUZZTIME ?= 20000x
fuzz: ## every fuzz target for FUZZTIME
	@for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "fuzz $$pkg $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; \
	done

bench: build ## throughput against the baselines, and the per-layer benchmarks
	$(BIN)/bench throughput -size 16,100,8000 -seconds 1 -rounds 3
	$(GO) test -run '^$$' -bench . -benchtime 1s ./memseg ./pool ./reader ./writer

generate: ## generated code, committed; needs protoc
	$(GO) generate ./...

clean:
	rm -rf $(BIN)
