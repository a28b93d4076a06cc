# The container variant: the static binary of a release and nothing else, so that building it asks no registry. There is
# no "syntax" line for the same reason: BuildKit would fetch a frontend. BuildKit sets TARGETARCH, the classic builder
# does not: there it is amd64. The CA roots are inside the binary.
FROM scratch
ARG TARGETARCH
COPY dist/pullonce-linux-${TARGETARCH:-amd64} /pullonce
ENTRYPOINT ["/pullonce"]
