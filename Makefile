# Release binaries: static, stripped and the same bytes from the same commit on any machine with the Go of go.mod.

TARGETS := linux-amd64 linux-arm64 darwin-arm64 windows-amd64
MAX := 20000000 # bytes

.PHONY: dist
dist:
	rm -rf dist
	@for target in $(TARGETS); do \
		os=$${target%-*} arch=$${target#*-} exe=; \
		[ $$os = windows ] && exe=.exe; \
		CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch GOAMD64=v1 GOARM64=v8.0 GOFLAGS= GOWORK=off GOEXPERIMENT= \
			go build -trimpath -buildvcs=$${BUILDVCS:-true} -ldflags '-s -w -buildid=' -o dist/pullonce-$$target$$exe . || exit 1; \
		size=$$(wc -c <dist/pullonce-$$target$$exe); \
		echo "dist/pullonce-$$target$$exe: $$size bytes"; \
		[ $$size -le $(MAX) ] || { echo "error: over $(MAX) bytes" >&2; exit 1; }; \
	done
	@cd dist && sha256sum pullonce-* >SHA256SUMS
