/* SPDX-License-Identifier: BSD-2-Clause-Patent */
/* Admits or refuses requests, by the Host and Authorization headers, which are foreign bytes. */
#include "appliance/http/app_http_internal.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>
#include <strings.h>

#define HEADER_MAX 512u

bool http__host_is_ours(const char *host)
{
	char name[INET6_ADDRSTRLEN + 1];
	struct in6_addr v6;
	struct in_addr v4;
	size_t bytes;

	if (!host)
		return true; /* every browser says one */
	if (host[0] == '[') {
		bytes = strcspn(++host, "]");
		if (!host[bytes] || (host[bytes + 1] && host[bytes + 1] != ':'))
			return false;
	} else {
		bytes = strcspn(host, ":");
	}
	if (bytes == 0 || bytes >= sizeof(name))
		return false;
	memcpy(name, host, bytes);
	name[bytes] = '\0';
	return strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, &v4) == 1 ||
	       inet_pton(AF_INET6, name, &v6) == 1;
}

/* The time that this takes reveals only the token's length. */
static bool is_token(const char *said, size_t bytes, const char *token)
{
	ASSERT(token[0]); /* "" would let everybody in */
	return bytes == strlen(token) && CRYPTO_memcmp(said, token, bytes) == 0;
}

/* "user:password" in base64; any user. */
static bool has_password(const char *said, size_t bytes, const char *token)
{
	unsigned char text[HEADER_MAX];
	const char *password;
	int text_bytes;

	if (bytes == 0 || bytes % 4 || bytes > HEADER_MAX)
		return false;
	text_bytes = EVP_DecodeBlock(text, (const unsigned char *)said, (int)bytes);
	ASSERT(text_bytes <= (int)sizeof(text));
	if (text_bytes <= 0)
		return false;
	for (size_t i = bytes; i > bytes - 2 && said[i - 1] == '='; i--)
		text_bytes--; /* it counts what fills up the last four characters */
	password = memchr(text, ':', (size_t)text_bytes);
	if (!password)
		return false;
	password++;
	return is_token(password, (size_t)text_bytes - (size_t)(password - (const char *)text),
			token);
}

bool http__has_token(const char *authorization, const char *token)
{
	static const char bearer[] = "Bearer ", basic[] = "Basic ";
	size_t bytes = authorization ? strnlen(authorization, HEADER_MAX + 1) : 0;

	if (bytes == 0 || bytes > HEADER_MAX)
		return false;
	if (strncasecmp(authorization, bearer, sizeof(bearer) - 1) == 0)
		return is_token(authorization + sizeof(bearer) - 1, bytes - (sizeof(bearer) - 1),
				token);
	if (strncasecmp(authorization, basic, sizeof(basic) - 1) == 0)
		return has_password(authorization + sizeof(basic) - 1, bytes - (sizeof(basic) - 1),
				    token);
	return false;
}
