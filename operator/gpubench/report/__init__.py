# SPDX-License-Identifier: Apache-2.0
"""Figures for people: tables and sentences made of finished values. Computes nothing that it prints."""
