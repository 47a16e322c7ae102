"""Errors of Kafka as errors of the SDK, each with the way out."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from psoup_client import AccessDenied, FailedPrecondition, InvalidRequest, NotFound, PSoupError, Unavailable

NO_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
"""Codes for a topic or a partition that is not there."""

_AWAY = frozenset(
    (
        *(KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE),
        *(KafkaError._TIMED_OUT_QUEUE, KafkaError.BROKER_NOT_AVAILABLE, KafkaError.LEADER_NOT_AVAILABLE),
        *(KafkaError.REQUEST_TIMED_OUT, KafkaError.NOT_LEADER_FOR_PARTITION),
    )
)
_DENIED = frozenset(
    (
        *(KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED),
        *(KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._AUTHENTICATION, KafkaError._SSL),
        *(KafkaError.UNSUPPORTED_SASL_MECHANISM, KafkaError.ILLEGAL_SASL_STATE),
    )
)
_LOGIN = (
    "; --kafka-config-file takes security.protocol, sasl.mechanism, sasl.username, sasl.password and ssl.ca.location"
)


def error_of(problem: KafkaError | KafkaException, brokers: str, topic: str, trouble: str = "") -> PSoupError:
    """Convert an error of Kafka. `trouble`: the last message about a connection, which is often the cause."""
    error = problem.args[0] if isinstance(problem, KafkaException) else problem
    code, said = error.code(), trouble or error.str()
    facts = {"topic": topic, "brokers": brokers, "code": error.name()}
    if code in NO_TOPIC:
        return NotFound(
            f"Kafka at {brokers} has no topic {topic!r}; create it, or correct --topic",
            reason="UNKNOWN_TOPIC",
            facts=facts,
        )
    if code in _DENIED:
        return AccessDenied(f"Kafka at {brokers} refuses topic {topic!r}: {said}{_LOGIN}", facts=facts)
    if code in _AWAY or error.retriable():
        return Unavailable(
            f"no broker of {brokers} answers ({said}); check --brokers, and security.protocol if they use TLS or SASL",
            reason="KAFKA_UNAVAILABLE",
            facts=facts,
        )
    if code == KafkaError._INVALID_ARG:
        return InvalidRequest(f"a setting of Kafka is not valid: {said}; correct --kafka-config", facts=facts)
    return FailedPrecondition(f"Kafka at {brokers}, topic {topic!r}: {said}", reason="KAFKA_ERROR", facts=facts)


def is_denied(error: KafkaError) -> bool:
    """Whether an error says that a login or a right is missing, so that waiting does not help."""
    return error.code() in _DENIED
