# Everything a fresh machine needs is Go and make; further tools come through the
# Go module proxy (see the tool lines of go.mod).
GO ?= go
BIN := bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -X main.version=$(VERSION)

.PHONY: all build demo test invariants race lint bench bench-report fuzz imports generate clean

all: build

build: ## binaries in bin/
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/...

demo: build ## words of the Go source tree, counted across processes and verified
	./internal/test/demo/run.sh $(BIN)

test: ## all tests
	$(GO) test -timeout 10m ./...

invariants: ## the data path with released memory poisoned and second releases told
	$(GO) test -tags invariants -timeout 10m ./memseg ./pool ./shuffle ./internal/partition ./internal/gate ./reader ./writer ./client

race: ## the heap-backed and in-process variants under the race detector
	$(GO) test -race -timeout 12m ./...

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
	$(BIN)/bench throughput --size 16,100,8000 --seconds 1 --rounds 3
	$(GO) test -run '^$$' -bench . -benchtime 1s ./memseg ./pool ./reader ./writer

# All workloads, short, and a page of what they measured. Counting may find more
# than the goals allow, and files of /proc count less than the kernel: the page
# shows what there is.
REPORT := bench-report
SECONDS_PER_ROUND ?= 1
ROUNDS ?= 3
bench-report: build ## every workload, and a page in bench-report/report.html
	mkdir -p $(REPORT)
	rm -f $(REPORT)/*.json
	$(BIN)/bench throughput --size 16,100,1000,8000 --transports shm,ceiling,unix,tcp,pipe,grpc --seconds $(SECONDS_PER_ROUND) --rounds $(ROUNDS) --json $(REPORT)/throughput.json
	$(BIN)/bench latency --json $(REPORT)/latency.json
	$(BIN)/bench fanout --json $(REPORT)/fanout.json
	$(BIN)/bench scale --json $(REPORT)/scale.json
	-$(BIN)/bench audit --json $(REPORT)/audit.json
	$(BIN)/bench report $(REPORT)/*.json -o $(REPORT)/report.html

imports: ## which package imports which, by wing, with lines of code; ARGS=-dot for a graph
	@$(GO) run ./internal/imports $(ARGS)

generate: ## generated code, committed; needs protoc, and clang and llvm-strip of LLVM 14
	$(GO) generate ./...

clean:
	rm -rf $(BIN)
