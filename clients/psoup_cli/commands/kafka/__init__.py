"""The commands of `psoup kafka`. A command imports confluent-kafka when it runs."""
